"""The coordinator's side: a message for each node, and what each of them replied.

A node answers a message that it has answered before with the same bytes. So whatever breaks, a message is sent again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from hushtune.core.errors import HushtuneError, RefusedError, SettingError, WireError
from hushtune.core.roster import Id, NodeEntry, Roster
from hushtune.core.secret import Secret
from hushtune.federation.base import Dropped
from hushtune.federation.nodes.dial import dialled, reason
from hushtune.federation.nodes.guard import addressed
from hushtune.federation.nodes.own import Own
from hushtune.federation.nodes.process import COMMAND, MESSAGE, Process
from hushtune.federation.nodes.streams import LARGEST, Halt, Halted, TLSStream

_PAUSES = 0.05, 5.0  # seconds before a second try, and between tries at most
_DIAL = 10.0  # seconds for one try
_LEAVING = 10.0  # seconds in which a thread has noticed that it is halted
Parts = tuple[bytes, bytes]
"""A frame to a node: what stands before a message, and the message."""


class Nodes:
    """The nodes that a roster names (a `Reach`): those with an address are dialled there, each of the others is started
    on this machine.

    Args:
        roster: the coordinator's own; it names the nodes.
        secret: the coordinator's own: it shows nodes that all messages of a run are from whoever began it.
        own: what a node without an address has of its own. None: all must have addresses.
        patience: seconds in which a node that is away must come back.
        longest: seconds that a node may take for one reply.
        command: what starts a node's process here.
    """

    def __init__(
        self,
        roster: Roster,
        secret: Secret,
        own: Callable[[NodeEntry], Own] | None = None,
        patience: float = 60.0,
        longest: float = 3600.0,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._secret = secret
        self._ways: dict[Id, _Way] = {}
        for entry in roster.nodes:
            if entry.address:
                self._ways[entry.name] = _Dialled(entry, patience, longest)
            elif own is not None:
                self._ways[entry.name] = _Started(Process(own(entry), roster, command), longest)
            else:
                raise SettingError(f"a node must have an address, but '{entry.name}' of the roster has none")

    def exchange(self, messages: Mapping[Id, bytes]) -> Mapping[Id, bytes | Dropped]:
        """Asks all of them at one time; what interrupts it ends all that is under way.

        Args:
            messages: by the nodes' names.
        """
        if unknown := sorted(set(messages) - set(self._ways)):
            raise SettingError(f"messages must be for the nodes {sorted(self._ways)}, but got some for {unknown}")
        halt = Halt()
        calls = [
            _Call(self._ways[name], addressed(partial(self._token, name), message), halt)
            for name, message in messages.items()
        ]
        try:
            for call in calls:
                call.start()
            for call in calls:
                call.join()
        except BaseException:
            halt.set()
            for call in calls:
                call.leave()
            self.close()
            raise
        return {name: call.result() for name, call in zip(messages, calls, strict=True)}

    def _token(self, name: Id, run: str) -> bytes:
        """The same whenever this coordinator speaks to a node of a run, and known to nobody but that node: another one
        could speak in the coordinator's name."""
        return self._secret.derived("node token", name.encode(), run.encode())

    def close(self) -> None:
        """Lets go of connections, and ends the processes that were started. A later exchange begins anew."""
        for way in self._ways.values():
            way.close()


class _Way(Protocol):
    """How one node is reached."""

    def ask(self, parts: Parts, halt: Halt) -> bytes | Dropped:
        """The node's reply, or why there is none."""

    def close(self) -> None:
        """Ends what is kept between messages."""


class _Call(threading.Thread):
    """One message under way; the thread does not keep this process from ending."""

    def __init__(self, way: _Way, parts: Parts, halt: Halt) -> None:
        super().__init__(daemon=True)
        self._way, self._parts, self._halt = way, parts, halt
        self._found: bytes | Dropped = Dropped("it was interrupted")
        self._raised: BaseException | None = None

    def run(self) -> None:
        """Asks the node, and keeps what comes of it."""
        try:
            self._halt.check()  # it may have been interrupted while it was started
            if (size := len(self._parts[1])) > LARGEST:
                self._found = Dropped(f"a message must have at most {LARGEST} bytes, but got {size}")
            else:
                self._found = self._way.ask(self._parts, self._halt)
        except Halted:
            pass
        except BaseException as error:
            self._raised = error

    def result(self) -> bytes | Dropped:
        """What came of it, when it is done."""
        if self._raised is not None:
            raise self._raised
        return self._found

    def leave(self) -> None:
        """Waits until it has noticed that it is halted."""
        with suppress(RuntimeError):  # it was not started
            self.join(_LEAVING)


class _Started:
    """A node of this machine: a process that is started when it is first asked, and again if it dies."""

    def __init__(self, process: Process, longest: float) -> None:
        self._process, self._longest = process, longest

    def ask(self, parts: Parts, halt: Halt) -> bytes | Dropped:
        """The node's reply, or why there is none."""
        try:
            return self._process.ask(halt, MESSAGE, *parts, patience=self._longest)
        except (OSError, HushtuneError) as error:
            return Dropped(f"its process on this machine gave no reply: {error}")

    def close(self) -> None:
        """Ends the process, if there is one."""
        self._process.close()


class _Dialled:
    """A node at an address. The connection is kept; if it breaks, the node is dialled again for a while."""

    def __init__(self, entry: NodeEntry, patience: float, longest: float) -> None:
        self._entry, self._patience, self._longest = entry, patience, longest
        self._stream: TLSStream | None = None

    def ask(self, parts: Parts, halt: Halt) -> bytes | Dropped:
        """The node's reply, or why there is none."""
        until, pause = float("inf"), _PAUSES[0]
        while True:
            try:
                return self._asked(parts, halt)
            except (OSError, RefusedError, WireError) as error:
                now, why = time.monotonic(), str(error) if isinstance(error, WireError) else reason(error)
                until = min(until, now + self._patience)
                if now + pause > until:
                    return Dropped(f"no reply from {self._entry.address} in {self._patience:g} seconds: {why}")
            halt.pause(pause)
            pause = min(2 * pause, _PAUSES[1])

    def _asked(self, parts: Parts, halt: Halt) -> bytes | Dropped:
        try:
            if self._stream is None:
                self._stream = dialled(self._entry, halt, _DIAL)
            self._stream.send(halt, *parts)
            begun = time.monotonic()
            try:
                return self._stream.receive(halt, self._longest)
            except TimeoutError:
                if time.monotonic() < begun + self._longest:
                    raise  # it stopped in the middle
                self.close()
                return Dropped(f"no reply from {self._entry.address} in {self._longest:g} seconds")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the connection, if there is one."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
