"""Dialling: whoever answers must be the node that the roster pins, or nothing is sent."""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from tests.seals.quorum.room import seeded

from hushtune.core.errors import RefusedError
from hushtune.core.roster import NodeEntry
from hushtune.federation.nodes.certificate import issued
from hushtune.federation.nodes.dial import dialled, reason
from hushtune.federation.nodes.front import listening
from hushtune.federation.nodes.streams import Halt, Halted


@contextmanager
def impostor(pem: bytes, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Iterator[tuple[NodeEntry, list[bytes]]]:
    """A TLS server with any certificate, and what it hears after the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
    listener, heard = listening("127.0.0.1:0"), []
    listener.setblocking(True)

    def serve() -> None:
        connection, _ = listener.accept()
        with suppress(ssl.SSLError), context.wrap_socket(connection, server_side=True) as wrapped:
            heard.append(wrapped.recv(1000))

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield NodeEntry("node-1", seeded("node-1").public, "{}:{}".format(*listener.getsockname())), heard
        thread.join()


@pytest.mark.parametrize(
    ("pem", "message"),
    [
        (issued(seeded("stranger"), "node-1"), "none that its key in the roster has signed"),
        (issued(seeded("node-2"), "node-2"), "none that its key in the roster has signed"),
        (issued(seeded("node-1"), "node-2"), "another node's"),
        (issued(seeded("node-1"), "node-1", datetime.now(UTC) - timedelta(days=8)), "must be valid now"),
    ],
)
def test_nothing_is_sent_to_anybody_else(pem: bytes, message: str) -> None:
    with impostor(pem) as (entry, heard), pytest.raises(RefusedError, match=message) as caught:
        dialled(entry, Halt(), 30)
    assert heard == [b""]
    assert message in reason(caught.value)


def test_older_tls_is_not_spoken() -> None:
    older = impostor(issued(seeded("node-1"), "node-1"), ssl.TLSVersion.TLSv1_2)
    with older as (entry, heard), pytest.raises(ssl.SSLError):
        dialled(entry, Halt(), 30)
    assert heard == []


def test_the_node_itself_hears() -> None:
    with impostor(issued(seeded("node-1"), "node-1")) as (entry, heard):
        dialled(entry, Halt(), 30).send(Halt(), b"hello")
    assert heard[0].endswith(b"hello")


def test_nobody_there_and_nobody_who_answers() -> None:
    with listening("127.0.0.1:0") as silent:
        entry = NodeEntry("node-1", bytes(32), "{}:{}".format(*silent.getsockname()))
        with pytest.raises(TimeoutError):
            dialled(entry, Halt(), 0.05)
        halt = Halt()
        threading.Timer(0.05, halt.set).start()
        with pytest.raises(Halted):
            dialled(entry, halt, 600)
    with pytest.raises(ConnectionRefusedError) as caught:
        dialled(entry, Halt(), 30)
    assert reason(caught.value) == "Connection refused"


def test_all_addresses_of_a_host_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with impostor(issued(seeded("node-1"), "node-1")) as (entry, heard):
        known = socket.getaddrinfo(*entry.address.split(":"), type=socket.SOCK_STREAM)
        nobody = [(*one[:4], ("127.0.0.1", 1)) for one in known]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *given, **named: nobody + known)
        dialled(entry, Halt(), 30).send(Halt(), b"hello")
    assert heard[0].endswith(b"hello")
