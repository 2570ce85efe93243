"""Messages of the threshold seal: what they hold, and that nothing of it was changed on its way.

A bit that flips in a ciphertext makes garbage of it, or OpenFHE crash: so every message has a digest of its parts.
"""

from __future__ import annotations

import hashlib
from typing import Any

from hushtune.core.errors import WireError
from hushtune.core.roster import Roster
from hushtune.core.wire import pack

KIND = "threshold"
BEGINS = "keys"  # the trip that makes keys
END = "end"  # the trip that ends what is of no use any more


def common_seed(run: str, roster: Roster, round_: int) -> str:
    """What the common random polynomials of a set of keys are derived from; each end computes it itself.

    Args:
        run: the run's id.
        roster: all clients.
        round_: the one in which the keys are made.
    """
    return hashlib.sha256(f"hushtune threshold {run} {roster.digest()} {round_}".encode()).hexdigest()


def packed(header: dict[str, Any], *parts: bytes) -> bytes:
    """A message with a digest of its parts."""
    return pack({**header, "digest": _digest(parts)}, *parts)


def checked(header: dict[str, Any], parts: list[bytes]) -> None:
    """Refuses parts that are not those which were sent."""
    if header.get("digest") != _digest(parts):
        raise WireError("the content of a message was changed on its way")


def _digest(parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()
