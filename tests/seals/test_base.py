"""How many may be missing or dishonest, and what that means for the noise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushtune as ht
from hushtune.core.randomness import SystemRandomness
from hushtune.privacy.bounds import Ball, KHot
from hushtune.privacy.noise.skellam import reach
from hushtune.seals.base import SEAL_CLASSES, Protected, Seal, floor_share, largest_sum
from hushtune.seals.ends import Seat

SHARES = st.decimals(0, "0.99", places=2).map(float)


def test_shares_are_counted_with_exact_arithmetic() -> None:
    """As floats, 1 - .2 - .1 is above .7, and .7 * 10 rounds up to 8."""
    seal = ht.Clear(dropouts=0.2, corrupt=0.1)
    assert seal.honest(10) == 7
    assert seal.needed(10) == 8
    assert floor_share(0.29, 100) == 29
    assert floor_share(0.3, 10) == 3
    assert floor_share(1e-5, 100_000) == 1
    for clients in range(10, 400):
        assert seal.honest(clients) == clients - clients * 2 // 10 - clients // 10


@given(st.integers(0, 99), st.integers(0, 100_000))
def test_a_share_in_percent_is_what_it_says(percent: int, clients: int) -> None:
    assert floor_share(percent / 100, clients) == percent * clients // 100


@pytest.mark.parametrize("seal", [ht.Clear(), ht.Masked(), ht.Masked(dropouts=0, corrupt=0), ht.Threshold()])
def test_what_a_client_can_subtract_never_carries_the_noise(seal: ht.Seal) -> None:
    """A reader of the opened sum knows its own share: the others' alone have the whole variance, however few."""
    for clients in range(2, 60):
        noise = seal.noise(12.0)
        assert noise.share_variance(seal.honest(clients)) * (seal.needed(clients) - 1) >= noise.variance
    assert seal.honest(1) == 1
    assert [seal.honest(clients) for clients in (2, 3, 9)] == [1, 2, 8]


@given(SHARES, SHARES, st.integers(1, 300))
def test_the_honest_are_those_who_must_answer_without_the_corrupt_or_a_refusal(
    dropouts: float, corrupt: float, clients: int
) -> None:
    seal = ht.Clear(dropouts, corrupt)
    needed, bad = seal.needed(clients), floor_share(corrupt, clients)
    assert 1 <= needed <= clients
    if bad and needed - bad < 1:
        with pytest.raises(ht.SettingError, match=r"`dropouts \+ corrupt < 1` must leave an honest client"):
            seal.check(clients)
    else:
        seal.check(clients)
        assert 1 <= seal.honest(clients) <= needed
        assert seal.honest(clients) <= clients - bad


@pytest.mark.parametrize(
    "arguments",
    [{"dropouts": 1.0}, {"dropouts": -0.1}, {"corrupt": float("nan")}, {"corrupt": True}, {"dropouts": "0"}],
)
def test_bad_shares(arguments: dict[str, Any]) -> None:
    with pytest.raises(ht.SettingError, match="must hold"):
        ht.Clear(**arguments)


@given(st.integers(1, 50), st.integers(1, 5), st.sampled_from([KHot(2, 6), Ball(9, 4)]), st.integers(0, 10**6))
def test_no_sum_is_larger_than_announced(clients: int, voters: int, bound: Any, variance: int) -> None:
    most = clients * voters * bound.largest
    assert largest_sum(clients, voters, bound, Fraction(0)) == most
    if variance:
        assert largest_sum(clients, voters, bound, Fraction(variance)) == most + reach(float(variance * clients))


def test_a_seal_that_leaves_something_out_says_what() -> None:
    class Half(Seal):
        name: ClassVar[str] = "half"

    try:
        half, seat = Half(), Seat("r", ht.Roster(("a",)), 0, "terms", SystemRandomness())
        for call, message in (
            (lambda: half.traffic(1, KHot(1, 1), 1, 1, 1, False), "seal 'half' does not say what it sends"),
            (lambda: half.protects(Protected(1, False, True, 0.0)), "seal 'half' does not say what it protects"),
            (lambda: half.client(seat), "seal 'half' has no client's end"),
            (lambda: half.server("r", seat.roster, "terms"), "seal 'half' has no server's end"),
            (lambda: Half.expects({}, [], b""), "seal 'half' has no client's end"),
        ):
            with pytest.raises(ht.SettingError, match=message):
                call()
        assert SEAL_CLASSES.known["half"] is Half
        assert half.to_json() == {"name": "half", "dropouts": 0.1, "corrupt": 0.1}
    finally:
        SEAL_CLASSES._known.pop("half", None)
