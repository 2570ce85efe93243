"""Frames: messages behind their length, over pipes and over TLS. All that is waited for has a time, and can be halted.

Whoever reads refuses a frame that is too long before memory is spent on it, and takes no more memory than has arrived.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import IO, TypeVar

from hushtune.core.errors import WireError

LARGEST = 2**26
"""Bytes of a message, at most."""

_LENGTH = struct.Struct(">Q")
_CHUNK = 2**16
_SLOW, _RATE = 30.0, 2**17  # seconds that any frame may take, and bytes in each second beyond
_DAY = 86400.0
_Found = TypeVar("_Found")


def moving_time(size: int) -> float:
    """Seconds in which a frame must have passed, once it has begun: far more than a slow line needs.

    Args:
        size: bytes of the frame.
    """
    return _SLOW + size / _RATE


class Halted(Exception):
    """Nobody wants any more what was waited for."""


class Halt:
    """Ends all that waits with it, from any thread, once and for all."""

    def __init__(self) -> None:
        self._heard, self._said = os.pipe()
        weakref.finalize(self, _close, self._heard, self._said)

    def set(self) -> None:
        """Whatever waits with this ends with Halted, now and later."""
        os.write(self._said, b"!")

    def wait(self, descriptor: int, events: int, until: float) -> None:
        """Waits for a descriptor; raises TimeoutError, or Halted.

        Args:
            descriptor: of a pipe or a socket.
            events: what is waited for, as `select.poll` has it.
            until: a moment of `time.monotonic`.
        """
        poll = select.poll()
        poll.register(self._heard, select.POLLIN)
        poll.register(descriptor, events)
        while not (ready := dict(poll.poll(_milliseconds(until)))):
            if time.monotonic() >= until:
                raise TimeoutError("it takes too long")
        if self._heard in ready:
            raise Halted

    def check(self) -> None:
        """Raises Halted if it is set already."""
        self.pause(0.0)

    def pause(self, seconds: float) -> None:
        """Waits for so long; raises Halted.

        Args:
            seconds: how long.
        """
        with suppress(TimeoutError):
            self.wait(self._heard, select.POLLIN, time.monotonic() + seconds)


def _milliseconds(until: float) -> float:
    """How long to wait in one go: systems know no longer waits than some weeks."""
    return 1000 * min(max(0.0, until - time.monotonic()), _DAY)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class _NotYetError(Exception):
    """Bytes cannot be moved until a descriptor is ready."""

    def __init__(self, descriptor: int, events: int) -> None:
        super().__init__()
        self.descriptor, self.events = descriptor, events


class Stream(ABC):
    """Frames both ways. What goes wrong is an OSError; the stream is of no use then."""

    @abstractmethod
    def _read(self, most: int) -> bytes:
        """Some bytes, or none at the end; _NotYetError if none are there."""

    @abstractmethod
    def _write(self, content: memoryview) -> int:
        """How many bytes were taken; _NotYetError if none can be."""

    @abstractmethod
    def close(self) -> None:
        """Lets the other end know that nothing follows."""

    def send(self, halt: Halt, *parts: bytes) -> None:
        """One frame.

        Args:
            halt: ends it.
            parts: of the frame, which are put together.
        """
        size = sum(map(len, parts))
        until = time.monotonic() + moving_time(size)
        pieces: tuple[bytes, ...] = (_LENGTH.pack(size), *parts)
        if size < _CHUNK:
            pieces = (b"".join(pieces),)
        for piece in pieces:
            left = memoryview(piece)
            while left:
                taken = self._done(partial(self._write, left[:_CHUNK]), halt, until)
                left = left[taken:]

    def receive(self, halt: Halt, patience: float = float("inf"), most: int = LARGEST) -> bytes:
        """The next frame.

        Args:
            halt: ends the wait.
            patience: seconds until it must begin; from then on it has its own time (`moving_time`).
            most: bytes that it may have; a WireError if it has more.
        """
        begun = self._exactly(1, halt, time.monotonic() + patience)
        since = time.monotonic()
        (size,) = _LENGTH.unpack(begun + self._exactly(_LENGTH.size - 1, halt, since + _SLOW))
        if size > most:
            raise WireError(f"a message must have at most {most} bytes, but one of {size} is announced")
        return self._exactly(size, halt, since + moving_time(size))

    def _exactly(self, size: int, halt: Halt, until: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            got = self._done(partial(self._read, min(_CHUNK, size - len(found))), halt, until)
            if not got:
                raise ConnectionError("the other end is gone")
            found += got
        return bytes(found)

    def _done(self, act: Callable[[], _Found], halt: Halt, until: float) -> _Found:
        """What an act gives, as soon as it can be done."""
        while True:
            if time.monotonic() > until:  # a byte now and then does not count
                raise TimeoutError("it takes too long")
            try:
                return act()
            except _NotYetError as error:
                halt.wait(error.descriptor, error.events, until)


class PipeStream(Stream):
    """Frames over two pipes.

    Args:
        source: unbuffered.
        sink: unbuffered.
    """

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self._source, self._sink = source, sink
        for end in (source, sink):
            os.set_blocking(end.fileno(), False)

    def _read(self, most: int) -> bytes:
        try:
            return os.read(self._source.fileno(), most)
        except BlockingIOError:
            raise _NotYetError(self._source.fileno(), select.POLLIN) from None

    def _write(self, content: memoryview) -> int:
        try:
            return os.write(self._sink.fileno(), content)
        except BlockingIOError:
            raise _NotYetError(self._sink.fileno(), select.POLLOUT) from None

    def close(self) -> None:
        """Closes both pipes, of which either may be broken."""
        for end in (self._source, self._sink):
            with suppress(OSError):
                end.close()


def kept_alive(connection: socket.socket) -> None:
    """Has the system find out within a minute or so that the other machine is gone, and send small frames at once.

    Args:
        connection: before anything is sent.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class TLSStream(Stream):
    """Frames over a TLS connection.

    Args:
        connection: wrapped; its handshake is to come.
    """

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._socket = connection
        connection.setblocking(False)

    def handshake(self, halt: Halt, until: float) -> None:
        """Agrees on keys with the other end.

        Args:
            halt: ends it.
            until: a moment of `time.monotonic`.
        """
        self._done(partial(self._ready, self._socket.do_handshake), halt, until)

    def shown(self) -> bytes:
        """The certificate that the other end has shown (DER); empty if it has shown none."""
        return self._socket.getpeercert(binary_form=True) or b""

    def _read(self, most: int) -> bytes:
        return self._ready(partial(self._socket.recv, most))

    def _write(self, content: memoryview) -> int:
        return self._ready(partial(self._socket.send, content))

    def _ready(self, act: Callable[[], _Found]) -> _Found:
        try:
            return act()
        except ssl.SSLWantReadError:
            raise _NotYetError(self._socket.fileno(), select.POLLIN) from None
        except ssl.SSLWantWriteError:
            raise _NotYetError(self._socket.fileno(), select.POLLOUT) from None

    def close(self) -> None:
        """Closes the connection; the other end may be gone already."""
        with suppress(OSError):
            self._socket.close()
