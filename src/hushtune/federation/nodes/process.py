"""A node's own process (`inside.py`), as seen from the one that started it and is the only one it listens to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from hushtune.core.errors import SettingError, WireError, WorkerError
from hushtune.core.roster import Roster
from hushtune.federation.nodes.own import Own, told
from hushtune.federation.nodes.streams import Halt, PipeStream

CERTIFICATE, MESSAGE = b"c", b"m"
"""What a frame to the process begins with: it asks for a certificate, or holds what a coordinator has sent."""

COMMAND = (sys.executable, "-P", "-m", "hushtune.federation.nodes.inside")
_KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH")
_TRIES = 3  # how often it is started over one frame
_START = 60.0  # seconds


class Process:
    """Starts a node's process when it is first needed, and again when it has died: it goes on from its journal.

    Args:
        own: what the node has of its own.
        roster: the node's.
        command: what starts the process.
    """

    def __init__(self, own: Own, roster: Roster, command: Sequence[str] = COMMAND) -> None:
        self._told, self._command = told(own, roster), command  # with the places as they are now
        self._child: subprocess.Popen[bytes] | None = None
        self._stream: PipeStream | None = None
        self._end_child: Callable[[], object] = _nothing
        self.hello: dict[str, Any] = {}  # what it said when it last started
        _ALL.add(self)

    def ask(self, halt: Halt, kind: bytes, *parts: bytes, patience: float = float("inf")) -> bytes:
        """The process's reply to a frame. If it dies over it, another one gets the same frame.

        Args:
            halt: ends the wait, and the process.
            kind: what the frame is.
            parts: what it holds.
            patience: seconds to wait for the reply.
        """
        for _ in range(_TRIES):
            try:
                stream = self.start(halt)
                stream.send(halt, kind, *parts)
                return stream.receive(halt, patience)
            except (ConnectionError, WireError):
                how = self.close()
            except WorkerError as error:  # it may have been killed while it started
                how = str(error)
            except BaseException:  # half a frame may be on its way
                self.close()
                raise
        raise WorkerError(f"a node's process ended {_TRIES} times over one message, last with {how}")

    def start(self, halt: Halt) -> PipeStream:
        """Starts the process if there is none; what it refuses to start with is a SettingError.

        Args:
            halt: ends the wait, and the process.
        """
        halt.check()
        if self._stream is not None:
            return self._stream
        child = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={name: os.environ[name] for name in _KEPT if name in os.environ} | {"OMP_NUM_THREADS": "1"},
            process_group=0,  # Ctrl-C is for this process, which decides
        )
        self._end_child = weakref.finalize(self, _end, child)
        assert child.stdin is not None
        assert child.stdout is not None
        self._child, self._stream = child, PipeStream(child.stdout, child.stdin)
        try:
            self._stream.send(halt, self._told)
            self.hello = json.loads(self._stream.receive(halt, _START))
        except (OSError, WireError, ValueError):
            raise WorkerError(f"a node's process must start, but it ended with {self.close()}") from None
        except BaseException:
            self.close()
            raise
        if "refused" in self.hello:
            self.close()
            raise SettingError(str(self.hello["refused"]))
        return self._stream

    def close(self) -> str:
        """Ends the process, at whatever it is; says how it ended. The next frame starts another one."""
        self._stream = None
        self._end_child()
        code = self._child.returncode or 0 if self._child is not None else 0
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    def disown(self) -> None:
        """In a fork: its pipes must not stay open when the process that owns it is gone."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _nothing() -> None:
    """There is no process to end."""


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kills it: all that it has said is in its journal. In a fork, whose child it is not, nothing happens to it."""
    for pipe in (child.stdin, child.stdout):
        with suppress(OSError):
            assert pipe is not None
            pipe.close()
    child.kill()
    child.wait()


_ALL: weakref.WeakSet[Process] = weakref.WeakSet()


def _disown_all() -> None:
    for process in _ALL:
        process.disown()


os.register_at_fork(after_in_child=_disown_all)
