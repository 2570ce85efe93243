"""Clients that lie to the server: their own contribution is lost; no sum is wrong. Of shares: test_revealed.py."""

from __future__ import annotations

from typing import Any

import pytest
from tests.seals.masked.harness import Federation, trips

from hushtune.core.wire import pack, unpack


@pytest.mark.parametrize("trip", trips(pinned=True))
@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"garbage",
        pack({"kind": "input"}),
        pack({"kind": "keys"}, b"short"),
        pack({"kind": "unmask"}, b"x", b"y", b"z"),
    ],
)
def test_garbage_from_a_client_counts_as_its_dropout(trip: str, garbage: bytes) -> None:
    federation = Federation(9, dropped=2, pinned=True)
    federation.tamper = lambda t, n, content, is_reply: garbage if (t, n, is_reply) == (trip, 4, True) else content
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert set(missing) == (set() if trip in ("agree", "unmask") else {"c4"})


@pytest.mark.parametrize(("trip", "part"), [("keys", 0), ("input", 1)])
def test_a_key_of_no_use_counts_as_its_owners_dropout(trip: str, part: int) -> None:
    """All-zero public keys, now or in the advert for the next sum, cost nobody else anything."""
    federation = Federation(9, dropped=2)

    def tamper(t: str, n: int, content: bytes, is_reply: bool) -> Any:
        if (t, n, is_reply) == (trip, 4, True):
            header, parts = unpack(content)
            if len(parts) > part:
                parts[part] = bytes(64) + parts[part][64:]
            return pack(header, *parts)
        return content

    federation.tamper = tamper
    for _ in range(2):
        total, _, expected = federation.sum()
        assert total.tolist() == expected.tolist()


def test_an_old_rounds_reply_counts_as_a_dropout() -> None:
    federation = Federation(9, dropped=2)
    old: dict[str, bytes] = {}

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if number == 4 and is_reply and trip == "unmask":
            return old.setdefault(trip, content)
        return content

    federation.tamper = tamper
    for _ in range(3):
        total, _, expected = federation.sum()
        assert total.tolist() == expected.tolist()
