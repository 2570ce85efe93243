"""Dialling a node's front: a connection is used only if its certificate is one of the node that the roster pins."""

from __future__ import annotations

import errno
import os
import select
import socket
import ssl
import time

from hushtune.core.errors import RefusedError
from hushtune.core.roster import NodeEntry, parse_address
from hushtune.federation.nodes.certificate import check
from hushtune.federation.nodes.streams import Halt, TLSStream, kept_alive


def dialled(entry: NodeEntry, halt: Halt, seconds: float) -> TLSStream:
    """A connection to a node; nothing was sent over it yet. Raises OSError if it is not reached, RefusedError if what
    answers there is not the node.

    Args:
        entry: in the coordinator's own roster.
        halt: ends it.
        seconds: that it may take.
    """
    until = time.monotonic() + seconds
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # no authority is asked: `check` compares with the roster
    stream = TLSStream(context.wrap_socket(_connected(entry, halt, until), do_handshake_on_connect=False))
    try:
        stream.handshake(halt, until)
        check(stream.shown(), entry)
    except BaseException:
        stream.close()
        raise
    return stream


def _connected(entry: NodeEntry, halt: Halt, until: float) -> socket.socket:
    """A TCP connection to the first of the host's addresses that can be reached."""
    host, port = parse_address(entry.address)
    failed: OSError = ConnectionError("the host has no address")
    for family, _, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            kept_alive(connection)
            connection.setblocking(False)
            code = connection.connect_ex(place)
            if code == errno.EINPROGRESS:
                halt.wait(connection.fileno(), select.POLLOUT, until)
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0:
                return connection
            failed = OSError(code, os.strerror(code))
        except OSError as error:
            failed = error
        except BaseException:
            connection.close()
            raise
        connection.close()
    raise failed


def reason(error: OSError | RefusedError) -> str:
    """Why a node was not reached, in a few words.

    Args:
        error: what `dialled` has raised.
    """
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
