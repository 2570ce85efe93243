"""What a request says to nodes: all that they check, add and open follows from it. They need to know no query."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hushtune.core.errors import WireError
from hushtune.core.wire import unpack
from hushtune.privacy.bounds import Bound
from hushtune.privacy.bounds.codec import bound_from_json
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal
from hushtune.seals.ends import check_added
from hushtune.seals.forms import Form, form_from_json
from hushtune.seals.registry import seal_from_json

_RUN = re.compile(r"[0-9a-f]{32}")
_MOST_VOTERS = 2**20
_MOST_BLOCKS = 2**10


@dataclass(frozen=True)
class Sheet:
    """A request's part for nodes. Clients refuse a request whose query is bound by anything else.

    Args:
        run: its id.
        step: which opening of the run.
        roster: the digest of the roster.
        seal: the run's.
        noise: what the opening gets.
        form: what of the sum is opened; None: the sum.
        voters: units of each client.
        bound: on each unit's vector.
        blocks: names and lengths of the vector's parts.
        added: public scores that are added to the sums before a question is answered; empty: none.
    """

    run: str
    step: int
    roster: str
    seal: Seal
    noise: Noise
    form: Form | None
    voters: int
    bound: Bound
    blocks: Mapping[str, int]
    added: tuple[int, ...] = ()

    @classmethod
    def from_bytes(cls, content: bytes) -> Sheet:
        """Reads it from a request's bytes; a WireError or SettingError says what is wrong.

        Args:
            content: the request, as clients bound it into their envelopes.
        """
        header, _ = unpack(content)
        if header.get("kind") != "request" or not isinstance(header.get("seal"), dict):
            raise WireError("a request was expected")
        seal, checked = seal_from_json(header["seal"]), header.get("checked")
        if not isinstance(checked, dict):
            raise WireError(f"a request to nodes must say what they check, but this one's seal is '{seal.name}'")
        run, roster = _text(header, "run"), _text(header, "roster")
        if not _RUN.fullmatch(run):
            raise WireError("a run id must be 32 hex digits")
        scale, voters = header.get("scale"), _whole(header, "voters")
        if not isinstance(scale, float | int) or isinstance(scale, bool) or not 1 <= voters <= _MOST_VOTERS:
            raise WireError("a request to nodes must have a noise scale and voters")
        bound = bound_from_json(checked.get("bound"))
        form, blocks = form_from_json(header.get("form")), _blocks(checked.get("blocks"), bound.length)
        if form is not None:
            form.check(blocks)
        added = checked.get("added")
        if not isinstance(added, list):
            raise WireError("a request to nodes must say which public scores are added, or that none are")
        check_added(added, bound)
        return cls(
            run, _whole(header, "step"), roster, seal, seal.noise(scale), form, voters, bound, blocks, tuple(added)
        )


def _text(header: Mapping[str, Any], name: str) -> str:
    if not isinstance(found := header.get(name), str):
        raise WireError(f"a request's {name} must be a text")
    return found


def _whole(header: Mapping[str, Any], name: str) -> int:
    if type(found := header.get(name)) is not int:
        raise WireError(f"a request's {name} must be a whole number")
    return found


def _blocks(raw: Any, length: int) -> dict[str, int]:
    """The parts of a vector of this length; anything else is refused."""
    if not isinstance(raw, dict) or not 1 <= len(raw) <= _MOST_BLOCKS:
        raise WireError("a request must name the parts of its vectors, and their lengths")
    if any(type(size) is not int or size < 0 for size in raw.values()) or sum(raw.values()) != length:
        raise WireError(f"the parts of a vector of {length} numbers must have so many together")
    return raw
