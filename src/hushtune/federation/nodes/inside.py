"""Inside a node's process, which holds the node's keys and shares: it hears from its parent, over a pipe, and from
nobody else.

It has no network. When the pipe closes it ends at once, whatever it does: all that it has said is in its journal.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

from hushtune.core.errors import HushtuneError, SettingError
from hushtune.core.files import make_folder
from hushtune.core.files import own as private
from hushtune.core.locks import Claim
from hushtune.core.roster import Id, Roster
from hushtune.core.wire import pack
from hushtune.federation.nodes.certificate import issued
from hushtune.federation.nodes.guard import ADDRESS_BYTES, MOST_RUNS, Guard
from hushtune.federation.nodes.own import Own, heard
from hushtune.federation.nodes.process import CERTIFICATE
from hushtune.federation.nodes.streams import LARGEST, Halt, PipeStream
from hushtune.federation.nodes.task import board_of, reader
from hushtune.seals.quorum.node import NodeEnd, Read
from hushtune.seals.quorum.sharing import crowd

log = logging.getLogger("hushtune")

_HOUR = 3600.0
_PATIENCE = 2.0  # seconds in which a process that was killed has let its folder go
Reader = Callable[[Roster], Read]


def main(reader: Reader = reader) -> None:
    """Answers frames until the pipe closes.

    Args:
        reader: how a node with a roster reads requests.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    source, sink = _pipes()
    threading.Thread(target=_end_with_parent, args=(source.fileno(),), daemon=True).start()
    stream, halt = PipeStream(source, sink), Halt()
    try:
        node = Inside(*heard(stream.receive(halt)), reader)
    except (HushtuneError, OSError) as error:
        stream.send(halt, json.dumps({"refused": _told(error)}).encode())
        return
    stream.send(halt, json.dumps(node.hello).encode())
    with suppress(ConnectionError):  # the parent is gone
        serve(node, source, stream, halt)


def serve(node: Inside, source: IO[bytes], stream: PipeStream, halt: Halt) -> None:
    """Answers one frame after the other; once an hour, and first of all, old runs go.

    Args:
        node: who answers.
        source: what frames are read from.
        stream: what they are read with.
        halt: ends it.
    """
    while True:
        node.guard.expire()
        due = time.monotonic() + _HOUR
        while (left := due - time.monotonic()) > 0 and select.select([source], [], [], left)[0]:
            stream.send(halt, node.reply(stream.receive(halt, most=LARGEST + ADDRESS_BYTES + 1)))


def _pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Both pipes to the parent; what else is read or printed here does not get into them."""
    source, sink = os.fdopen(os.dup(0), "rb", buffering=0), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, sink


def _end_with_parent(source: int) -> None:
    poll = select.poll()
    poll.register(source, 0)  # nothing but the end of the pipe
    poll.poll()
    os._exit(0)


def _told(error: Exception) -> str:
    """In words, with the file that it is about."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename} cannot be used: {error.strerror}"
    return str(error)


class Inside:
    """A node with its guard.

    Args:
        own: what it has of its own.
        roster: who takes part.
        reader: how requests are read.
    """

    def __init__(self, own: Own, roster: Roster, reader: Reader) -> None:
        self._name, self._identity = own.named(roster)
        crowd(len(roster.nodes))
        folder = own.folder / self._name
        make_folder(folder)
        private(folder, folder=True)
        self._claim = _claimed(folder, self._name) if own.served else None
        node = NodeEnd(self._name, self._identity, board_of(roster), folder, reader(roster))
        self.guard = Guard(node.step, folder, roster.digest(), own.days, MOST_RUNS if own.served else None)
        self.hello = {"name": self._name, "folder": str(folder)}

    def reply(self, frame: bytes) -> bytes:
        """The reply to a frame of the parent. Nothing that a message leads to ends the process, if it can be helped."""
        if frame[:1] == CERTIFICATE:
            return issued(self._identity, self._name)
        try:
            return self.guard.step(frame[1:])
        except OSError as error:
            log.warning("this node's own files cannot be used: %s", error.strerror)
            reason = "this node's own files cannot be used"
        except Exception as error:
            log.warning("a message could not be answered: %s", type(error).__name__)
            reason = "internal error"
        return pack({"kind": "refused", "reason": reason})


def _claimed(folder: Path, name: Id) -> Claim:
    try:
        return Claim(folder / "lock", _PATIENCE)
    except BlockingIOError:
        raise SettingError(
            f"node '{name}' must have {folder} to itself, but another process runs this node there: end it, or choose "
            "another home"
        ) from None


if __name__ == "__main__":
    main()
