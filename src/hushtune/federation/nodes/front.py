"""A node's front: it listens, and hands whole frames on to the node's own process, one at a time.

It holds no share and no identity, only a TLS key with the identity's certificate of some days. So whoever takes over
what can be reached from outside finds nothing that opens an envelope.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from hushtune.core.errors import HushtuneError, SettingError, WireError
from hushtune.core.roster import parse_address
from hushtune.core.wire import unpack_reply
from hushtune.federation.nodes.guard import ADDRESS_BYTES
from hushtune.federation.nodes.process import CERTIFICATE, MESSAGE, Process
from hushtune.federation.nodes.streams import LARGEST, Halt, Halted, TLSStream, kept_alive

log = logging.getLogger("hushtune")

MOST = 16
"""Connections at one time: a frame of each may be in memory."""

_WAITING = 128  # connections that the system may hold until they are looked at
_THREADS = 4 * MOST
_GREETING = 30.0  # seconds to shake hands, and then to begin a first message
_RENEWED = 86400.0  # seconds after which there is a new certificate


def listening(address: str) -> socket.socket:
    """A socket that listens; refused if the address is not one of this machine's, or taken.

    Args:
        address: HOST:PORT; port 0 stands for any free one.
    """
    free = address.endswith(":0")
    try:
        host, port = parse_address(address[:-1] + "1" if free else address)
    except SettingError:
        raise SettingError(f"--listen must be HOST:PORT, with port 0 for any free one, but got '{address}'") from None
    try:
        family, _, _, _, place = socket.getaddrinfo(host, 0 if free else port, type=socket.SOCK_STREAM)[0]
        made = socket.create_server(place, family=family, backlog=_WAITING)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise SettingError(
            f"--listen must be a free address of this machine, but '{address}' is not: {why}; choose another one"
        ) from None
    made.setblocking(False)
    return made


class Front:
    """Serves connections until it is closed.

    Args:
        process: the node's.
        listener: from `listening`.
    """

    def __init__(self, process: Process, listener: socket.socket) -> None:
        self._process, self._listener = process, listener
        self._halt = Halt()
        self._turn = threading.Lock()  # one frame at a time goes to the process
        self._guests: list[_Guest] = []
        self._threads = 0  # those that are about to end included
        self._lock = threading.Lock()
        self._context, self._since = self._certified(), time.monotonic()

    def _certified(self) -> ssl.SSLContext:
        """A fresh TLS key, with its certificate: neither ever has a name in a file system."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0
        with tempfile.TemporaryFile() as file:
            file.write(self._process.ask(self._halt, CERTIFICATE))
            file.seek(0)
            context.load_cert_chain(f"/dev/fd/{file.fileno()}")
        return context

    def serve(self) -> None:
        """Takes connections until `close`; each is served by a thread of its own."""
        with suppress(Halted):
            while True:
                self._halt.wait(self._listener.fileno(), select.POLLIN, float("inf"))
                try:
                    if self._threads < _THREADS:
                        self._welcome(*self._listener.accept())
                        continue
                except (OSError, RuntimeError) as error:  # it is gone already, or there are too many files or threads
                    log.info("a connection was not taken: %s", error)
                self._halt.pause(0.05)

    def _welcome(self, connection: socket.socket, place: Sequence[object]) -> None:
        """Serves a connection; another one goes if there are too many."""
        guest = None
        try:
            with self._lock:
                if len(self._guests) >= MOST:
                    self._make_room()
                guest = _Guest(connection, str(place[0]))
                self._guests.append(guest)
                self._threads += 1
            threading.Thread(target=self._serve, args=(guest,), daemon=True).start()
        except BaseException:
            connection.close()
            if guest is not None:
                self._leave(guest)
            raise

    def _leave(self, guest: _Guest) -> None:
        guest.close()
        with self._lock, suppress(ValueError):
            self._threads -= 1
            self._guests.remove(guest)

    def _make_room(self) -> None:
        """Ends the connection that is most likely nobody's: coordinators dial again."""
        idle = [guest for guest in self._guests if not guest.busy]
        if not idle:
            raise ConnectionError("all others wait for the node")
        last = min(idle, key=lambda guest: (guest.known, guest.since))
        self._guests.remove(last)
        last.halt.set()

    def _serve(self, guest: _Guest) -> None:
        try:
            stream = guest.greeted(self._current())
            while True:
                frame = stream.receive(guest.halt, float("inf") if guest.known else _GREETING, LARGEST + ADDRESS_BYTES)
                guest.busy = True
                reply = self._reply(frame)
                stream.send(guest.halt, reply)
                guest.known, guest.busy, guest.since = _taken(reply), False, time.monotonic()
        except (OSError, WireError, Halted) as error:
            log.info("a connection from %s ends: %s", guest.place, error)
        except HushtuneError as error:
            log.warning("the node does not answer: %s", error)
        finally:
            self._leave(guest)

    def _reply(self, frame: bytes) -> bytes:
        with self._turn:
            return self._process.ask(self._halt, MESSAGE, frame)

    def _current(self) -> ssl.SSLContext:
        """With a new certificate now and then, if the process has nothing better to do."""
        if time.monotonic() > self._since + _RENEWED and self._turn.acquire(blocking=False):
            try:
                self._context, self._since = self._certified(), time.monotonic()
            except HushtuneError as error:  # the last one is good for some days more
                log.warning("the node makes no new certificate: %s", error)
            finally:
                self._turn.release()
        return self._context

    def close(self) -> None:
        """Ends all connections, and the node's process, at whatever they are."""
        self._halt.set()
        self._listener.close()
        with self._lock:
            for guest in self._guests:
                guest.halt.set()
        with self._turn:
            self._process.close()


class _Guest:
    """A connection, and what is known of it.

    Args:
        connection: as it was taken.
        place: where it comes from.
    """

    def __init__(self, connection: socket.socket, place: str) -> None:
        self._connection, self.place = connection, place
        self.halt = Halt()
        self.known = False  # whether the node has taken its last message
        self.busy = False
        self.since = time.monotonic()

    def greeted(self, context: ssl.SSLContext) -> TLSStream:
        """Its frames, after the handshake."""
        kept_alive(self._connection)
        wrapped = context.wrap_socket(self._connection, server_side=True, do_handshake_on_connect=False)
        self._connection = wrapped
        stream = TLSStream(wrapped)
        stream.handshake(self.halt, time.monotonic() + _GREETING)
        return stream

    def close(self) -> None:
        """Ends it, if the other end has not."""
        with suppress(OSError):
            self._connection.close()


def _taken(reply: bytes) -> bool:
    try:
        unpack_reply(reply)
    except WireError:
        return False
    return True
