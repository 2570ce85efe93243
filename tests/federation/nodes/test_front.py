"""A front: it holds nothing of the node's, and nobody who reaches its port can stop it for others."""

from __future__ import annotations

import errno
import os
import signal
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from tests.federation.nodes.harness import END, KEY, TOKEN, Site, framed, served
from tests.seals.quorum.room import said, seeded

from hushtune.core.errors import SettingError
from hushtune.core.roster import NodeEntry
from hushtune.federation.nodes import front as fronts
from hushtune.federation.nodes import streams
from hushtune.federation.nodes.dial import dialled
from hushtune.federation.nodes.front import MOST, Front, listening
from hushtune.federation.nodes.streams import LARGEST, Halt, TLSStream


class Place:
    """A front that serves, and its address."""

    def __init__(self, front: Front, address: str) -> None:
        self.front, self.address = front, address
        host, _, port = address.rpartition(":")
        self.place = (host, int(port))
        self.entry = NodeEntry("node-1", seeded("node-1").public, address)

    def dial(self) -> TLSStream:
        return dialled(self.entry, Halt(), 30)

    def raw(self) -> socket.socket:
        return socket.create_connection(self.place, timeout=30)

    def tls(self, **settings: Any) -> ssl.SSLSocket:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for name, value in settings.items():
            setattr(context, name, value)
        return context.wrap_socket(self.raw())


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with served(Site(tmp_path_factory.mktemp("front")).process(served=True)) as (made, address):
        yield Place(made, address)


def asked(stream: TLSStream, message: bytes = KEY, token: bytes = TOKEN) -> bytes:
    halt = Halt()
    stream.send(halt, framed(message, token))
    return stream.receive(halt, 60)


def ended(connection: socket.socket) -> bool:
    """Whether the other end has let go."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def finish(connection: socket.socket) -> None:
    """Says no more, and hears out what the other end says, which may have let go already."""
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_WR)
        while connection.recv(1000):
            pass


def test_messages_and_replies_pass_as_they_are(front: Place) -> None:
    first, second = front.dial(), front.dial()
    reply = asked(first)
    assert said(reply)["is"] == "key"
    assert asked(second) == reply
    assert "somebody else" in said(asked(second, END, b"x" * 32))["reason"]
    assert asked(first) == reply
    first.close()
    assert asked(second) == reply


def test_killed_the_process_is_started_again(front: Place) -> None:
    stream = front.dial()
    reply = asked(stream)
    child = front.front._process._child
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    assert asked(stream) == reply
    assert front.front._process._child is not child


def test_only_tls_1_3_is_spoken(front: Place) -> None:
    with front.tls() as connection:
        assert connection.version() == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        front.tls(maximum_version=ssl.TLSVersion.TLSv1_2)


def test_garbage_does_not_stop_it(front: Place) -> None:
    stream = front.dial()
    reply = asked(stream)
    for content in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0" * 100,
        os.urandom(1000),
        b"\x16\x03\x01\xff\xff" + b"\0" * 99,
    ):
        with front.raw() as connection:
            connection.sendall(content)
            finish(connection)
    for frame in (
        struct.pack(">Q", LARGEST + 65) + b"x",
        struct.pack(">Q", 2**64 - 1),
        struct.pack(">Q", 5) + b"four",
        struct.pack(">Q", 0),
        struct.pack(">Q", 40) + b"x" * 40,
    ):
        with front.tls() as connection:
            connection.sendall(frame)
            finish(connection)
    assert asked(stream) == reply


def test_slow_connections_are_ended(front: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "_GREETING", 0.1)
    monkeypatch.setattr(streams, "_SLOW", 0.1)
    with front.raw() as silent:
        assert ended(silent)
    with front.raw() as halfway:
        halfway.sendall(b"\x16\x03\x01")
        assert ended(halfway)
    with front.tls() as silent:
        assert ended(silent)
    for begun in (b"\0", struct.pack(">Q", 100) + b"x"):
        with front.tls() as halfway:
            halfway.sendall(begun)
            assert ended(halfway)


def test_a_known_coordinator_may_be_silent_for_long(front: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = front.dial()
    reply = asked(stream)
    with front.tls() as stranger:
        monkeypatch.setattr(fronts, "_GREETING", 0.05)
        assert asked(stream) == reply
        stranger.sendall(struct.pack(">Q", 1) + b"x")  # which is refused, and does not make it known
        assert stranger.recv(1000)
        assert ended(stranger)
    assert asked(stream) == reply


def test_many_connections_leave_room_for_more(front: Place) -> None:
    """The one that goes is the oldest stranger; whoever was answered stays."""
    stream = front.dial()
    reply = asked(stream)
    crowd = [front.raw() for _ in range(3 * MOST)]
    newcomer = front.dial()
    assert asked(newcomer) == reply
    assert asked(stream) == reply
    assert len(front.front._guests) <= MOST
    assert ended(crowd[0])
    for connection in crowd:
        connection.close()


def test_neither_files_nor_threads_that_run_out_end_it(front: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = front.dial()
    reply = asked(stream)
    for name, error in (
        ("_Guest", OSError(errno.EMFILE, "Too many open files")),
        ("threading", RuntimeError("no thread")),
    ):
        with monkeypatch.context() as patched:
            tried = threading.Event()

            def fails(*given: Any, tried: threading.Event = tried, error: Exception = error, **named: Any) -> Any:
                tried.set()
                raise error

            patched.setattr(fronts, name, fails if name == "_Guest" else SimpleNamespace(Thread=fails))
            with front.raw() as connection:
                assert tried.wait(60)
                assert ended(connection)
    with monkeypatch.context() as patched:
        patched.setattr(fronts, "_THREADS", 0)
        waiting = front.raw()
    waiting.close()
    assert asked(front.dial()) == reply
    assert asked(stream) == reply


def test_one_message_at_a_time(front: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    process = front.front._process
    ask, under_way, most = process.ask, [0], [0]

    def watched(*given: Any, **named: Any) -> bytes:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        time.sleep(0.005)
        try:
            return ask(*given, **named)
        finally:
            under_way[0] -= 1

    monkeypatch.setattr(process, "ask", watched)
    lines = [front.dial() for _ in range(4)]
    threads = [threading.Thread(target=lambda line=line: [asked(line) for _ in range(3)]) for line in lines]  # type: ignore[misc]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_certificates_are_renewed(front: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    first = front.dial().shown()
    assert front.dial().shown() == first
    monkeypatch.setattr(fronts, "_RENEWED", 0.0)
    second = front.dial().shown()
    assert second != first
    with monkeypatch.context() as patched:

        def fails() -> ssl.SSLContext:
            raise SettingError("the identity is gone")

        patched.setattr(front.front, "_certified", fails)
        assert front.dial().shown() == second  # which is good for some days


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", ":0", "::1:0", "127.0.0.1:70000", "a b:0"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(SettingError, match="--listen must be HOST:PORT, with port 0"):
        listening(address)


def test_ipv6_stands_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        with listening("[::1]:0") as made:
            assert made.getsockname()[0] == "::1"
    except SettingError as error:
        assert "Cannot assign requested address" in str(error) or "not supported" in str(error)


def test_addresses_that_cannot_be_had() -> None:
    with listening("127.0.0.1:0") as first:
        taken = "{}:{}".format(*first.getsockname())
        for address in (taken, "192.0.2.1:0", "no-such-host.invalid:7000"):
            with pytest.raises(SettingError, match=f"free address of this machine, but '{address}' is not: .*choose"):
                listening(address)
