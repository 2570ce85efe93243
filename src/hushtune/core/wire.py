"""The wire format: a version byte, a JSON header, binary parts. Strict both ways, and pickle-free.

b"H" | version (1) | header length (4, big endian) | header | part length (4) | part | ...
"""

from __future__ import annotations

import json
import struct
from typing import Any

from hushtune.core.errors import WireError

VERSION = 1
_LENGTH = struct.Struct(">I")
_LONGEST_REASON = 300


def pack(header: dict[str, Any], *parts: bytes) -> bytes:
    """One message. The header's order is kept: that of a space's knobs has a meaning."""
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    body = b"".join(_LENGTH.pack(len(piece)) + piece for piece in (text, *parts))
    return b"H" + bytes([VERSION]) + body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


_HEADER = json.JSONDecoder(parse_constant=_no_constant)  # made once: a million envelopes have a header each


def unpack(message: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """The header and the parts of one message; anything else is a WireError."""
    if message[:1] != b"H":
        raise WireError("a message must start with 'H', but got something else")
    if message[1:2] != bytes([VERSION]):
        raise WireError(f"wire version {VERSION} is spoken here, but got {message[1:2].hex() or 'none'}")
    pieces, at = [], 2
    while at < len(message):
        if at + 4 > len(message):
            raise WireError("a message ends inside a length")
        (length,) = _LENGTH.unpack_from(message, at)
        at += 4 + length
        if at > len(message):
            raise WireError("a message ends inside a part")
        pieces.append(message[at - length : at])
    if not pieces:
        raise WireError("a message must have a header, but got none")
    try:
        header = _HEADER.decode(pieces[0].decode())
    except (ValueError, RecursionError):
        raise WireError("a header must be JSON") from None
    if not isinstance(header, dict):
        raise WireError(f"a header must be a JSON object, but got {type(header).__name__}")
    return header, pieces[1:]


def unpack_reply(reply: Any) -> tuple[dict[str, Any], list[bytes]]:
    """The header and the parts of a client's reply; a refusal, or no reply at all, is a WireError with the reason.

    The reason is the client's own text: what is printed of it is short and harmless to a terminal.
    """
    if not isinstance(reply, bytes):
        raise WireError(str(getattr(reply, "reason", "no reply")))
    header, parts = unpack(reply)
    if header.get("kind") == "refused":
        reason = str(header.get("reason"))[:_LONGEST_REASON]
        raise WireError("refused: " + "".join(sign if sign.isprintable() else "?" for sign in reason))
    return header, parts
