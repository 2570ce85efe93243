"""The masked protocol: exact sums or clean aborts, whoever drops out; what the server sees; state between processes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.seals.masked.harness import TRIPS, Federation, trips

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness
from hushtune.core.wire import unpack
from hushtune.privacy.noise.base import Noise
from hushtune.seals.masked import shamir
from hushtune.seals.masked.pact import (
    to_numbers,
)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("clients", [2, 3, 10, 40])
def test_three_sums_are_exact_in_four_and_then_two_trips(clients: int, pinned: bool) -> None:
    """Pinned, there is one more trip for each sum: the committee signs who answered."""
    federation = Federation(clients, pinned=pinned, dropped=clients // 10, corrupt=clients // 10)
    for number in range(3):
        total, missing, expected = federation.sum(last=number == 2)
        assert total.tolist() == expected.tolist()
        assert not missing
        assert federation.trips == 4 + 2 * number + pinned * (number + 1)


@pytest.mark.parametrize("trip", trips(pinned=True))
@pytest.mark.parametrize("after", [0, 1])
def test_dropouts_at_every_stage_give_the_sum_of_those_who_answered(trip: str, after: int) -> None:
    federation = Federation(12, dropped=3, corrupt=1, pinned=True)
    for _ in range(after):
        federation.sum()
    if (trip, after) in (("keys", 1), ("shares", 1)):
        return  # a later sum has no such trip
    federation.drop = {(after, trip, n) for n in (1, 5, 9)}
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert set(missing) == (set() if trip in ("agree", "unmask") else {"c1", "c5", "c9"})


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize(("clients", "dropped"), [(3, 1), (5, 2), (9, 4)])
def test_a_small_federation_survives_almost_half_of_it(clients: int, dropped: int, pinned: bool) -> None:
    """Some before their input and some after: the latter are in the sum, and named as of no help."""
    for early in range(dropped + 1):
        federation = Federation(clients, pinned=pinned, dropped=dropped)
        federation.drop = {(0, trip, n) for n in range(early) for trip in ("input", "agree", "unmask")}
        federation.drop |= {(0, trip, n) for n in range(early, dropped) for trip in ("agree", "unmask")}
        total, missing, expected = federation.sum(last=True)
        assert (total == expected).all()
        assert set(missing) == {f"c{n}" for n in range(early)}
        assert set(federation.late) == {f"c{n}" for n in range(early, dropped)}


def test_one_dropout_more_than_a_small_federation_survives() -> None:
    federation = Federation(5, dropped=2)
    federation.drop = {(0, "unmask", n) for n in range(3)}
    with pytest.raises(ht.AbortedError, match="3 good shares of every secret must .*, but got 2 of one; c0: no"):
        federation.sum()


@pytest.mark.parametrize("trip", trips(pinned=False))
def test_more_dropouts_than_allowed_abort_and_nothing_is_opened(trip: str) -> None:
    federation = Federation(12, dropped=3, corrupt=1)
    more = (1, 3, 5, 9, 11) if trip == "unmask" else (1, 3, 5, 9)  # there one is counted as corrupt
    federation.drop = {(0, trip, n) for n in more}
    with pytest.raises(ht.AbortedError, match="but got 6 of one; c1: no" if trip == "unmask" else "but got 8; "):
        federation.sum()


def test_clients_lost_in_one_sum_come_back_with_new_keys() -> None:
    """Clients who are not prepared for the next sum do not count against its dropouts: keys are made anew."""
    federation = Federation(20, dropped=4, corrupt=1)
    federation.drop = {(0, "unmask", n) for n in (0, 1)} | {(1, "input", n) for n in (2, 3, 4)}
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert set(missing) == {"c2", "c3", "c4"}
    assert federation.trips == 8


def test_a_client_that_stays_away_costs_more_trips_once() -> None:
    federation = Federation(20, dropped=4, corrupt=1)
    federation.drop = {(number, trip, 0) for number in range(5) for trip in TRIPS} - {(0, "keys", 0), (0, "shares", 0)}
    trips_so_far = []
    for _ in range(4):
        total, missing, expected = federation.sum()
        assert total.tolist() == expected.tolist()
        assert set(missing) == {"c0"}
        trips_so_far.append(federation.trips)
    assert trips_so_far == [4, 8, 10, 12]


@pytest.mark.parametrize("trip", ["input", "unmask"])
def test_after_a_round_that_failed_the_next_one_starts_anew(trip: str) -> None:
    federation = Federation(20, dropped=4, corrupt=1)
    federation.sum()
    federation.drop = {(1, trip, n) for n in range(6)}
    with pytest.raises(ht.AbortedError, match="clients must have|good shares of every"):
        federation.sum()
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert not missing


@pytest.mark.long
def test_a_thousand_random_cases_are_exact_or_abort() -> None:
    _random_cases(4, 500)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_ten_thousand_random_cases_are_exact_or_abort(part: int) -> None:
    """4 x 1,250 federations, 10,000 sums asked for."""
    _random_cases(part, 1_250)


def _random_cases(part: int, cases: int) -> None:
    """Random sizes, lengths and dropout patterns over two sums."""
    rng, exact, aborted = np.random.default_rng(part), 0, 0
    for case in range(cases):
        clients = int(rng.integers(2, 7))
        dropped = int(rng.integers(0, max(1, (clients - 1) // 2)))
        pinned = case % 5 == 0
        federation = Federation(clients, case, pinned=pinned, dropped=dropped, length=int(rng.integers(1, 5)))
        chance = rng.choice([0.0, 0.05, 0.2])
        for number, trip, client in itertools.product(range(2), TRIPS, range(clients)):
            if rng.random() < chance:
                federation.drop.add((number, trip, client))
        for _ in range(2):
            try:
                total, _, expected = federation.sum()
                assert total.tolist() == expected.tolist()
                exact += 1
            except ht.AbortedError:
                aborted += 1
    assert exact + aborted == 2 * cases
    assert exact > 0.8 * cases
    assert aborted > 0.08 * cases


@pytest.mark.statistical
def test_the_noise_in_the_sum_at_the_threshold_of_answers() -> None:
    """100 clients, of whom 10 drop out and 10 add no noise: what is opened still has the variance that was asked for.

    A normal approximation at 6 sigma (< 1e-8); half the noise, or shares for all 100 clients, would be far outside.
    """
    seal, size, noise = ht.Masked(), 4_000, Noise(12.0)
    federation = Federation(100, graph=seal.shape(100), length=size)
    federation.drop = {(0, "input", n) for n in range(10)}
    shares = [noise.share(seal.honest(100), size, SimulatedRandomness(n, "variance")) for n in range(100)]
    for corrupt in range(10, 20):
        shares[corrupt] = np.zeros(size, dtype=np.int64)
    total, missing, _ = federation.sum(last=True, vectors=np.array(shares))
    assert len(missing) == 10
    spread = np.sqrt(2 / size + 1 / (144 * size))
    assert abs(np.var(total) / 144 - 1) < 6 * spread


# ---- what the server sees ----------------------------------------------------------------------------


def rebuilt(federation: Federation) -> tuple[dict[tuple[int, int], set[int]], dict[tuple[int, int], set[int]]]:
    """From the server's whole view: who revealed shares of whose self-mask seed, and of whose mask key."""
    seeds: dict[tuple[int, int], set[int]] = {}
    masks: dict[tuple[int, int], set[int]] = {}
    for number, trip, holder, reply in federation.view:
        header, parts = unpack(reply)
        if trip != "unmask" or header["kind"] != "unmask":
            continue
        for table, content in ((seeds, parts[0]), (masks, parts[1])):
            for owner in to_numbers(content, shamir.SHARE_BYTES):
                table.setdefault((number, owner), set()).add(holder)
    return seeds, masks


def test_answers_drops_and_returns_across_three_sums_without_an_input_unmasked() -> None:
    """A client answers the first sum, drops in the second and returns in the third: no secret of one round opens
    another round's input, and within a round nobody's two secrets can both be rebuilt."""
    federation = Federation(12, dropped=3, corrupt=1, pinned=True)
    federation.drop = {(1, "input", 4)}
    for _ in range(2):
        total, _, expected = federation.sum()
        assert total.tolist() == expected.tolist()
    federation.server._ready = None  # the server starts anew, so that the client can return
    total, missing, expected = federation.sum()
    assert not missing
    assert total.tolist() == expected.tolist()
    seeds, masks = rebuilt(federation)
    threshold = federation.pact.shape.threshold
    for key in set(seeds) | set(masks):
        assert min(len(seeds.get(key, ())), len(masks.get(key, ()))) < threshold, key
    assert len(masks[1, 4]) >= threshold  # its mask key of the second sum was rebuilt ...
    adverts = [
        unpack(reply)[1][0][:64]
        for _, trip, n, reply in federation.view
        if n == 4 and trip == "keys" and unpack(reply)[0]["kind"] == "keys"
    ]
    ahead = [unpack(reply)[1][1][:64] for _, trip, n, reply in federation.view if n == 4 and trip == "input"]
    keys = [advert[at : at + 32] for advert in [*adverts, *ahead] for at in (0, 32)]
    assert len(set(keys)) == len(keys)  # ... and no key was ever used in two rounds


def test_a_masked_input_says_nothing_without_its_seed() -> None:
    """The same input twice looks unrelated, and differs from the input in about half the bits."""
    federation = Federation(6, dropped=1)
    federation.sum()
    federation.sum()
    inputs = [unpack(r)[1][0] for _, trip, n, r in federation.view if trip == "input" and n == 2]
    assert inputs[0] != inputs[1]
    plain = federation.inputs[0][2].astype("<u4").tobytes()
    assert inputs[0] != plain


# ---- between processes, and the wire -----------------------------------------------------------------


def test_state_survives_between_any_two_messages() -> None:
    federation = Federation(5, pinned=True)

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if not is_reply:  # a new process for every message
            state = federation.clients[number].dump()
            federation.clients[number] = federation.make(number).load(state)
            federation.clients[number]._randomness = SystemRandomness()
        return content

    federation.tamper = tamper
    for _ in range(3):
        total, missing, expected = federation.sum()
        assert not missing
        assert total.tolist() == expected.tolist()


def test_secrets_do_not_show() -> None:
    federation = Federation(3, pinned=True)
    federation.sum()
    client = federation.clients[0]
    assert client._next is not None
    shown = repr(client) + repr(federation.identities[0]) + repr(federation.pact)
    for secret in (client._next.seed, client._next.mask, client._next.channel, federation.identities[0].secret):
        assert secret.hex() not in shown
        assert repr(secret) not in shown
