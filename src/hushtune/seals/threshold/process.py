"""A sidecar as seen from hushtune: a child process, or one that outlives this process beside a client."""

from __future__ import annotations

import os
import select
import shutil
import stat
import subprocess
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from hushtune.core.errors import RefusedError
from hushtune.core.files import make_folder
from hushtune.core.locks import Claim
from hushtune.seals.threshold import sidecar
from hushtune.seals.threshold.environment import interpreter

_PIPES = ("in", "out")
_LOCK = "lock"
_CHUNK = 2**20
_AWAKE = 60.0  # seconds in which a process that is there answers, whatever it was doing
_LOST = "this client's key share is lost: the process that held it has ended"
_MAIN = (  # its folder alone is a package there; nothing is written beside it
    "import sys; sys.path.append(sys.argv[1]); from importlib import import_module; "
    "import_module(sys.argv[2] + '.sidecar').main()"
)
PATIENCE = 600.0  # seconds for one call; a damaged message can send OpenFHE into an endless loop


class Sidecar:
    """Calls of one process. Errors are RefusedErrors that name no values."""

    def __init__(self, sink: IO[bytes], source: IO[bytes]) -> None:
        self._sink, self._source = sink, source
        self._call = int.from_bytes(os.urandom(4), "big")
        self.calls: dict[str, int] = {}
        self.cpu: dict[str, float] = {}  # seconds that the process has computed for this object, by operation
        self.total = 0.0  # and for everything, reading and writing included

    @classmethod
    def start(cls, parameters: dict[str, int], seed: str, party: bool) -> Sidecar:
        """A child process with a context and the seed of the common polynomials: a party's, or the server's."""
        child = _spawn(subprocess.PIPE, subprocess.PIPE, detached=False)
        assert child.stdin is not None
        assert child.stdout is not None
        made = cls(child.stdin, child.stdout)
        made._child = child
        weakref.finalize(made, _end, child)
        made.call("begin", parameters=parameters, seed=seed, party=party)
        return made

    _child: subprocess.Popen[bytes] | None = None
    _folder: Path | None = None
    _claim: Claim | None = None

    @classmethod
    def beside(cls, folder: Path, parameters: dict[str, int], seed: str) -> Sidecar:
        """A party's process that later processes find again in the folder; it ends when it is closed or idle."""
        interpreter()  # before anything is made
        make_folder(folder.parent)
        folder.mkdir(mode=0o700)
        for name in _PIPES:
            os.mkfifo(folder / name, 0o600)
        ends = [os.open(folder / name, os.O_RDWR) for name in _PIPES]
        _spawn(ends[0], ends[1], detached=True)
        for end in ends:
            os.close(end)
        made = cls.found(folder)
        made.call("begin", parameters=parameters, seed=seed, party=True)
        return made

    @classmethod
    def found(cls, folder: Path) -> Sidecar:
        """The process beside a client that was left in the folder, if it still answers."""
        try:
            if not all(stat.S_ISFIFO((folder / name).stat().st_mode) for name in _PIPES):
                raise OSError
            sink, source = (os.open(folder / name, os.O_RDWR) for name in _PIPES)
        except OSError:
            raise RefusedError(_LOST) from None
        made = cls(os.fdopen(sink, "wb", buffering=0), os.fdopen(source, "rb", buffering=0))
        made._folder = folder
        try:
            made._claim = Claim(folder / _LOCK, _AWAKE)  # one process at a time talks to it
            made._send({"op": "ping", "call": made._call}, [])
            made._reply(_AWAKE)
        except (EOFError, OSError, ValueError):
            made.close()
            raise RefusedError(_LOST) from None
        return made

    def call(self, op: str, *parts: bytes, **header: Any) -> list[bytes]:
        """One message and its reply."""
        self._call += 1
        try:
            self._send({"op": op, "call": self._call, **header}, list(parts))
            reply, found = self._reply()
        except (EOFError, OSError, ValueError):
            self.close()
            raise RefusedError("the process that holds the key share has ended, or does not answer") from None
        step = str(header.get("step", op))
        self.cpu[step] = self.cpu.get(step, 0.0) + reply["cpu"]
        self.calls[step] = self.calls.get(step, 0) + 1
        self.total = reply["total"]
        if "error" in reply:
            raise RefusedError(f"OpenFHE could not do '{step}' ({reply['error']})")
        return found

    def once(self, step: str, name: str, *parts: bytes, **header: Any) -> list[bytes]:
        """An operation that is done once under this name; again, it gives what it gave then."""
        return self.call("once", *parts, step=step, name=f"{name} {step}", **header)

    def _send(self, header: dict[str, Any], parts: list[bytes]) -> None:
        """Writes a message, as long as it is being read."""
        pipe = self._sink.fileno()
        os.set_blocking(pipe, False)
        for piece in sidecar.pieces_of(header, parts):
            left = memoryview(piece)
            while left:
                if not select.select([], [pipe], [], PATIENCE)[1]:
                    raise EOFError
                left = left[os.write(pipe, left[:_CHUNK]) :]

    def _reply(self, patience: float = PATIENCE) -> tuple[dict[str, Any], list[bytes]]:
        """The reply to the last call; those to calls of a process that was killed are skipped."""
        while True:
            if not select.select([self._source], [], [], patience)[0]:
                raise EOFError
            reply, found = sidecar.read_message(self._source)
            if reply["call"] == self._call:
                return reply, found

    def close(self) -> None:
        """Ends the process, and its secret with it."""
        if self._child is not None:
            _end(self._child)
        with suppress(OSError, ValueError):
            if self._folder is not None:
                self._send({"op": "end", "call": self._call}, [])
                shutil.rmtree(self._folder, ignore_errors=True)
        for stream in (self._sink, self._source):
            with suppress(OSError):
                stream.close()
        if self._claim is not None:
            self._claim.close()


def _end(child: subprocess.Popen[bytes]) -> None:
    """Nobody will ask it any more."""
    child.kill()
    child.wait()


def _spawn(stdin: int, stdout: int, detached: bool) -> subprocess.Popen[bytes]:
    """OpenFHE on one thread, with nothing of this process's environment but the path."""
    keep = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LD_LIBRARY_PATH", "LANG")}
    folder = Path(sidecar.__file__).parent
    command: Sequence[str] = [str(interpreter()), "-I", "-B", "-c", _MAIN, str(folder.parent), folder.name]
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        env={**keep, "OMP_NUM_THREADS": "1"},
        start_new_session=detached,
        pipesize=_CHUNK,
    )
