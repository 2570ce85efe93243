"""What a coordinator keeps of a run under a quorum, so that one that is taken up again asks no client twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from hushtune.core.errors import CacheError, WireError
from hushtune.core.files import replace
from hushtune.core.roster import Id
from hushtune.core.wire import pack, unpack
from hushtune.seals.quorum.envelopes import Submission

_PLACES = "quorum.json"


class Carried:
    """For each step: with which message to nodes it began, and what clients sent. Nobody but nodes can open that.

    Args:
        folder: of the run; None: nothing is kept.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._began: dict[str, int] = {}
        if folder is not None and (folder / _PLACES).exists():
            self._began = _read(folder / _PLACES)

    def begin(self, step: int, message: int) -> int:
        """The number of the message to nodes with which a step began: this one, or what is on record.

        Args:
            step: of the run.
            message: the number of the next one.
        """
        if str(step) not in self._began:
            self._began[str(step)] = message
            if self._folder is not None:
                replace(self._folder / _PLACES, json.dumps(self._began) + "\n")
        return self._began[str(step)]

    def found(self, step: int, nodes: int) -> tuple[dict[Id, Submission], dict[Id, str]]:
        """What clients sent in a step, and why others sent nothing; both empty if that is not on record.

        Args:
            step: of the run.
            nodes: how many there are.
        """
        if self._folder is None or not (path := self._path(step)).exists():
            return {}, {}
        try:
            header, parts = unpack(path.read_bytes())
            names, missing = list(header["clients"]), dict(header["missing"])
            return {name: Submission.from_bytes(part, nodes) for name, part in zip(names, parts, strict=True)}, missing
        except (WireError, LookupError, TypeError, ValueError):
            raise CacheError(f"{path} must hold what clients sent, but is damaged: begin the run anew") from None

    def keep(self, step: int, found: Mapping[Id, Submission], missing: Mapping[Id, str]) -> None:
        """Puts on record what clients sent.

        Args:
            step: of the run.
            found: their submissions.
            missing: why others sent nothing.
        """
        if self._folder is None:
            return
        header = {"clients": list(found), "missing": dict(missing)}
        replace(self._path(step), pack(header, *(one.to_bytes() for one in found.values())), private=True)

    def forget(self) -> None:
        """Removes all of it: the run is over."""
        if self._folder is None:
            return
        for step in self._began:
            self._path(int(step)).unlink(missing_ok=True)
        (self._folder / _PLACES).unlink(missing_ok=True)

    def _path(self, step: int) -> Path:
        assert self._folder is not None
        return self._folder / f"submissions-{step}"


def _read(path: Path) -> dict[str, int]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or any(type(at) is not int for at in found.values()):
            raise ValueError
    except ValueError:
        raise CacheError(f"{path} must say how far a run is, but is damaged: begin the run anew") from None
    return found
