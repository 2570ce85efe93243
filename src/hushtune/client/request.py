"""The request: what the server asks of every client, as bytes that are the same for all."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from hushtune.client.query import Query, query_from_json, query_to_json
from hushtune.client.rows import Parts
from hushtune.core.errors import WireError
from hushtune.core.wire import pack, unpack
from hushtune.privacy.accounting import check_events
from hushtune.privacy.bounds.codec import bound_to_json
from hushtune.privacy.events.registry import event_from_json, event_to_json
from hushtune.privacy.events.sums import Event
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal
from hushtune.seals.forms import Form, form_from_json
from hushtune.seals.registry import seal_from_json

_MOST_EVENTS = 10_000
_RUN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Request:
    """What the server asks of every client: the same bytes for all.

    Args:
        run: 32 hex digits, fresh for each run.
        step: which of the announced openings of the run this is.
        form: what of the sum will be opened, if the seal computes it first; None: the sum.
        voters: how many parts each client splits its rows into; each answers for itself, the client sends their sum.
        events: those of all openings of the run, fixed before the first; empty without epsilon.
    """

    run: str
    step: int
    roster: str
    query: Query
    form: Form | None
    seal: Seal
    noise: Noise
    privacy: Privacy | None
    voters: int
    events: tuple[Event, ...]

    @property
    def parts(self) -> Parts:
        """How each client is split."""
        return parts_of(self.voters, self.privacy)

    def to_bytes(self) -> bytes:
        """The request on the wire."""
        return pack(
            {
                "kind": "request",
                "run": self.run,
                "step": self.step,
                "roster": self.roster,
                "query": query_to_json(self.query),
                "form": self.form.to_json() if self.form is not None else None,
                "seal": self.seal.to_json(),
                "scale": self.noise.scale,
                "privacy": self.privacy.to_json() if self.privacy else None,
                "voters": self.voters,
                "events": [event_to_json(event) for event in self.events],
                "checked": self._checked,
            }
        )

    @property
    def _checked(self) -> dict[str, Any] | None:
        """What nodes check of each vector, who know no queries: its bound and its parts; and what they add to sums."""
        if not self.seal.served_by:
            return None
        query = self.query
        return {"bound": bound_to_json(query.bound), "blocks": dict(query.blocks), "added": list(query.added)}

    @cached_property
    def identity(self) -> bytes:
        """A digest that stands for the whole request: its run and step, and all that is asked in it."""
        return hashlib.sha256(self.to_bytes()).digest()

    @cached_property
    def question(self) -> bytes:
        """A digest that stands for what is asked: the query, and the form of its sum."""
        form = self.form.to_json() if self.form is not None else None
        return hashlib.sha256(json.dumps([query_to_json(self.query), form], sort_keys=True).encode()).digest()

    def terms(self) -> str:
        """One text for what stays the same in all requests of a run: seal, privacy, voters, noise and events."""
        privacy = self.privacy.to_json() if self.privacy is not None else None
        events = [event_to_json(event) for event in self.events]
        content = json.dumps([self.seal.to_json(), privacy, self.voters, self.noise.scale, events], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @classmethod
    @lru_cache(maxsize=4)  # in one process, all clients get the same bytes
    def from_bytes(cls, message: bytes) -> Request:
        """Parses and type-checks; whatever is not a request is a WireError or a SettingError."""
        header, parts = unpack(message)
        try:
            if header.pop("kind") != "request" or parts:
                raise WireError("a request was expected")
            privacy, seal = header.pop("privacy"), seal_from_json(header.pop("seal"))
            request = cls(
                run=_typed(header.pop("run"), str),
                step=_typed(header.pop("step"), int),
                roster=_typed(header.pop("roster"), str),
                query=query_from_json(header.pop("query")),
                form=form_from_json(header.pop("form")),
                seal=seal,
                noise=seal.noise(_typed(header.pop("scale"), float, int)),
                privacy=Privacy(**privacy) if privacy is not None else None,
                voters=_typed(header.pop("voters"), int),
                events=_events(_typed(header.pop("events"), list)),
            )
            if json.dumps(header.pop("checked")) != json.dumps(
                request._checked
            ):  # order too: it says which part is where
                raise WireError("a request must have nodes check what its query is bound by")
        except (KeyError, TypeError, AttributeError) as error:
            raise WireError(f"a request has a missing or wrong field ({error})") from None
        if header:
            raise WireError(f"a request has unknown fields {sorted(header)}")
        if not _RUN.fullmatch(request.run):
            raise WireError("a run id must be 32 hex digits")
        return request


def _events(raw: list[Any]) -> tuple[Event, ...]:
    """The announced events; too many, or too many different ones, are refused before anybody computes their cost."""
    if len(raw) > _MOST_EVENTS:
        raise WireError(f"a run must have at most {_MOST_EVENTS} events, but got {len(raw)}")
    events = tuple(event_from_json(event) for event in raw)
    check_events(events)
    return events


def _typed(value: Any, *kinds: type) -> Any:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise TypeError(f"expected {kinds[0].__name__}")
    return value


def parts_of(voters: int, privacy: Privacy | None) -> Parts:
    """How each client of a run is split: so that the guarantee's records touch one part each."""
    by_record = privacy is not None and privacy.unit == "record"
    return Parts(voters, privacy.neighbours if privacy is not None and by_record else "replace-one")
