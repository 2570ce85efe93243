"""The wire format of the masked protocol: mutated messages crash nothing and give no wrong sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.seals.masked.harness import RUN, TRIPS, Federation, due

import hushtune as ht
from hushtune.core.errors import HushtuneError
from hushtune.core.roster import Roster
from hushtune.core.wire import unpack
from hushtune.seals.masked import crypto
from hushtune.seals.masked.pact import (
    Pact,
    pair_mask,
)


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.long)])
def test_mutated_messages_crash_nothing(count: int) -> None:
    """Every message of a sum, mutated: the client answers or refuses with a named error, and never hangs."""
    federation = Federation(4, pinned=True, length=2)
    recorded: list[tuple[bytes, bytes]] = []

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if number == 1 and not is_reply:
            recorded.append((federation.clients[1].dump(), content))
        return content

    federation.tamper = tamper
    federation.sum()
    assert [unpack(message)[0]["trip"] for _, message in recorded] == list(TRIPS)  # this client is of the committee
    rng, outcomes = np.random.default_rng(7), {"answered": 0, "refused": 0}
    for state, message in recorded:
        fresh = federation.make(1)
        for _ in range(count // len(recorded)):
            try:
                fresh.load(state).step(mutated(message, rng), due(np.zeros(2, dtype=np.int64)))
                outcomes["answered"] += 1
            except HushtuneError:
                outcomes["refused"] += 1
    assert sum(outcomes.values()) == count
    assert outcomes["refused"] > count / 2  # the rest changed what is neither signed nor checked here: the request


def mutated(message: bytes, rng: np.random.Generator) -> bytes:
    content = bytearray(message)
    kind = rng.integers(4)
    at = int(rng.integers(len(content)))
    if kind == 0:
        content[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del content[at : at + int(rng.integers(1, 40))]
    elif kind == 2:
        content[at:at] = rng.bytes(int(rng.integers(1, 20)))
    else:
        other = int(rng.integers(len(content)))
        content[at], content[other] = content[other], content[at] ^ 0x55
    return bytes(content)


@pytest.mark.long
def test_mutated_replies_never_give_a_wrong_sum() -> None:
    """Replies of one client, mutated outside its masked vector: the sum is exact for those counted, or aborts."""
    rng = np.random.default_rng(8)
    for case in range(300):
        federation = Federation(6, seed=case, pinned=True, dropped=1, length=2)
        trip = TRIPS[case % 5]

        def tamper(t: str, n: int, content: bytes, is_reply: bool, trip: str = trip) -> Any:
            if (t, n, is_reply) != (trip, 2, True):
                return content
            changed_reply = mutated(content, rng)
            return changed_reply if trip != "input" else changed_reply[:-1]

        federation.tamper = tamper
        try:
            total, _, expected = federation.sum()
        except ht.AbortedError:
            continue
        assert total.tolist() == expected.tolist()


def test_pair_masks_agree_and_depend_on_everything() -> None:
    federation = Federation(3)
    secrets = [crypto.private_key(bytes([i]) * 32) for i in (1, 2)]
    publics = [crypto.public_of(secret) for secret in secrets]
    one = pair_mask(federation.pact, 0, secrets[0], publics[1], 0, 1, "query")
    assert one == pair_mask(federation.pact, 0, secrets[1], publics[0], 1, 0, "query")
    other_roster = Pact(RUN, Roster(("x", "y", "z")), federation.pact.shape)
    assert (
        len(
            {
                one,
                pair_mask(federation.pact, 1, secrets[0], publics[1], 0, 1, "query"),
                pair_mask(federation.pact, 0, secrets[0], publics[1], 0, 2, "query"),
                pair_mask(federation.pact, 0, secrets[0], publics[1], 0, 1, "other"),
                pair_mask(other_roster, 0, secrets[0], publics[1], 0, 1, "query"),
            }
        )
        == 5
    )
