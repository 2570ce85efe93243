"""The guard before a node: messages of a run are taken from whoever began it, and from nobody else.

Before each message the coordinator names the run and shows a token, 32 random bytes of this run and this node. The
digest of the first one is on disk before the run begins, and goes after the run's secret is removed; so nobody else who
reaches the node can push a run's messages or end it, even after the node has started anew, nor have it read long
messages.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hushtune.core.errors import RefusedError, WireError
from hushtune.core.files import create_once, make_folder
from hushtune.core.locks import Claim
from hushtune.core.wire import pack, unpack
from hushtune.seals.quorum.node import KIND

log = logging.getLogger("hushtune")

TOKEN_BYTES = 32
ADDRESS_BYTES = TOKEN_BYTES + 32
"""What stands before a message: the token, and the run's id."""

MOST_RUNS = 64
_SHORT = 4096  # bytes of a message that begins a run
_RUN = re.compile(r"[0-9a-f]{32}")
_LOCK = "lock"
_DAY = 86400.0
_PATIENCE = 5.0  # seconds in which a process that was killed has let its run go


def header_of(message: bytes) -> dict[str, Any]:
    """The header of a message; of its parts, which may be many, nothing is read.

    Args:
        message: from the coordinator to a node.
    """
    return unpack(message[: 6 + int.from_bytes(message[2:6], "big")])[0]


def addressed(token: Callable[[str], bytes], message: bytes) -> tuple[bytes, bytes]:
    """What stands before a message, and the message.

    Args:
        token: of a run, by its id.
        message: from the coordinator to a node.
    """
    run = _run(header_of(message).get("run"))
    return token(run) + run.encode(), message


def _run(found: object) -> str:
    if not isinstance(found, str) or not _RUN.fullmatch(found):
        raise WireError("a message to a node must name its run by 32 hexadecimal digits")
    return found


class Guard:
    """Hands a run's messages on to its node.

    Args:
        step: the node's (`NodeEnd.step`).
        folder: where the node keeps its runs; it is there.
        roster: the digest of the node's roster: runs that began under another one are not gone on with.
        days: how long a run is kept that nobody ends, after its last message.
        most: how many unfinished runs are kept; None: as many as there are.
    """

    def __init__(
        self, step: Callable[[bytes], bytes], folder: Path, roster: str, days: int, most: int | None = None
    ) -> None:
        self._step, self._folder, self._roster, self._days, self._most = step, folder, roster, days, most
        self._claims: dict[str, Claim] = {}

    def step(self, frame: bytes) -> bytes:
        """The node's reply to a message, or a refusal.

        Args:
            frame: what `addressed` made.
        """
        token, name, message = frame[:TOKEN_BYTES], frame[TOKEN_BYTES:ADDRESS_BYTES], frame[ADDRESS_BYTES:]
        try:
            run = _run(name.decode("ascii", "replace"))
            known = self._known(run, token)  # before anything is read that a stranger may have written
            if not known and len(message) > _SHORT:
                raise RefusedError(
                    f"the message that begins a run must have at most {_SHORT} bytes, but got {len(message)}"
                )
            header = header_of(message)
            if (header.get("kind"), header.get("run")) != (KIND, run):
                raise WireError(f"a message to a node must be of kind '{KIND}', and of the run that its frame names")
            what = header.get("is")
            if not known and what == "key" and header.get("at") == 0:
                self._begin(run, token)
                known = self._known(run, token)  # another process may have been faster
            if known:
                self._check(run, what == "end")
            elif what != "end":  # nothing is made for a run that nobody has begun
                raise RefusedError("this node has no part in that run, or the run is over")
        except (WireError, RefusedError) as error:
            return pack({"kind": "refused", "reason": str(error)})
        reply = self._step(message)
        if known and what == "end":
            self._forget(run)
        return reply

    def _known(self, run: str, token: bytes) -> bool:
        """Whether there is such a run; refuses whoever did not begin it."""
        try:
            kept = self._record(run).read_text(encoding="ascii")
        except FileNotFoundError:
            if self._at(run).exists():
                raise RefusedError("who began this run is not on record") from None
            return False
        if not hmac.compare_digest(kept.partition(" ")[0], _digest(token)):
            raise RefusedError("somebody else began this run: its token is another one")
        return True

    def _begin(self, run: str, token: bytes) -> None:
        """Puts on record who begins a run."""
        found = self.runs()
        if self._most is not None and len(found) >= self._most:
            raise RefusedError(f"a node keeps at most {self._most} unfinished runs, and this one has {len(found)}")
        content = f"{_digest(token)} {self._roster}"
        create_once(self._record(run), lambda draft: _write(draft, content), private=True)

    def _check(self, run: str, ends: bool) -> None:
        """Refuses to go on under another roster, or beside another process."""
        if self._record(run).read_text(encoding="ascii").partition(" ")[2] != self._roster and not ends:
            raise RefusedError("this run began under another roster")
        if not self._claimed(run, _PATIENCE):
            raise RefusedError("another process of this node is at work on this run")

    def _claimed(self, run: str, patience: float = 0.0) -> bool:
        """Whether no other process is at work on a run, which is so until this one ends."""
        if run not in self._claims:
            make_folder(self._at(run))
            try:
                self._claims[run] = Claim(self._at(run) / _LOCK, patience)
            except BlockingIOError:
                return False
        return True

    def _forget(self, run: str) -> None:
        """The record goes last: without it nobody could end what is left of a run."""
        if not self._at(run).exists():
            self._record(run).unlink(missing_ok=True)
            if run in self._claims:
                self._claims.pop(run).close()

    def _record(self, run: str) -> Path:
        return self._folder / f"{run}.token"

    def _at(self, run: str) -> Path:
        return self._folder / run

    # ---- runs that nobody ends -----------------------------------------------------------------------

    def runs(self) -> set[str]:
        """The ids of all runs that are kept."""
        found = {path.name.removesuffix(".token") for path in self._folder.iterdir()}
        return {name for name in found if _RUN.fullmatch(name)}

    def expire(self) -> None:
        """Removes the runs whose last message is too long ago, with their secrets."""
        for run in self.runs():
            try:
                if time.time() - max(self._touched(run), default=0.0) > self._days * _DAY and self._claimed(run):
                    self._step(pack({"kind": KIND, "run": run, "is": "end"}))
                    self._forget(run)
            except OSError as error:
                log.warning("a run that nobody has ended cannot be removed: %s", error)

    def _touched(self, run: str) -> Iterator[float]:
        """When anything of a run was written."""
        paths = [self._record(run)]
        with suppress(FileNotFoundError):
            paths += (path for path in self._at(run).iterdir() if path.name != _LOCK)
        for path in paths:
            with suppress(FileNotFoundError):
                yield path.stat().st_mtime


def _digest(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


def _write(draft: Path, content: str) -> None:
    draft.write_text(content, encoding="ascii")
