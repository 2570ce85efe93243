"""Secret sampling: its divergences, its coin, and the paper's own figures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import skellam
from tests.client.harness import CANDIDATES, ROSTER, party, refusal, request

import hushtune as ht
from experiments.dp_fts_de.experiment import moments_epsilon, pld_epsilon
from hushtune.client.query import register
from hushtune.client.release import contribution, respond
from hushtune.client.rows import WHOLE
from hushtune.core.randomness import SimulatedRandomness
from hushtune.methods.vote.ballots import SoftVotes
from hushtune.privacy.accounting import epsilon_of, rdp_of, renyi_epsilon
from hushtune.privacy.bounds import Ball, KHot
from hushtune.privacy.events.registry import event_from_json, event_to_json
from hushtune.privacy.events.sums import GaussianVector, SkellamVector
from hushtune.privacy.noise.base import Noise
from hushtune.seals.curator import Curator
from hushtune.seals.plain import vector_of

ZERO_OUT = ht.Privacy(8.0, 1e-3, neighbours="zero-out")


@pytest.mark.parametrize(
    ("rate", "multiplier", "moments", "pld"),
    [
        (0.15, 1.0, 5.93, 3.96),
        (0.25, 1.0, 9.91, 7.05),
        (0.5, 1.0, 20.12, 15.71),
        (0.25, 1.2, 7.39, 5.15),
        (0.25, 1.5, 5.22, 3.60),
    ],
)
def test_the_published_privacy_losses_and_what_they_really_are(
    rate: float, multiplier: float, moments: float, pld: float
) -> None:
    """DP-FTS-DE, Figure 2: N=200, T=40, delta=1/N^1.1."""
    delta = 200**-1.1
    assert moments_epsilon(multiplier, rate, 40, delta) == pytest.approx(moments, abs=0.005)
    assert pld_epsilon(multiplier, rate, 40, delta) == pytest.approx(pld, abs=0.005)
    renyi = renyi_epsilon((GaussianVector(multiplier, 1.0, rate),) * 40, delta)
    assert pld < renyi < moments


def test_landmines_privacy_loss() -> None:
    assert moments_epsilon(1.0, 0.35, 60, 0.0246) == pytest.approx(15.17, abs=0.01)
    assert pld_epsilon(1.0, 0.35, 60, 0.0246) == pytest.approx(10.38, abs=0.01)


def test_visible_sampling_and_added_agents_would_cost_far_more() -> None:
    """What is lost if others see who is sampled (44), or if weights were normalised over those present (42)."""
    for event, expected in ((GaussianVector(1.0, 1.0), 44), (GaussianVector(0.5, 1.0, 0.35), 42)):
        assert event.pld(1e-3, 60).get_epsilon_for_delta(29**-1.1) == pytest.approx(expected, abs=1)


def _divergences(variance: float, shift: int, rate: float, order: int) -> tuple[float, float]:
    """Of (1 - rate) Q + rate P from Q and back, where Q is Skellam and P the same, shifted."""
    x = np.arange(-400, 401)
    q = skellam.pmf(x, variance / 2, variance / 2)
    mixed = (1 - rate) * q + rate * skellam.pmf(x - shift, variance / 2, variance / 2)
    kept = (q > 1e-250) & (mixed > 1e-250)
    forth = np.log(np.sum(np.exp(order * np.log(mixed[kept]) + (1 - order) * np.log(q[kept]))))
    back = np.log(np.sum(np.exp(order * np.log(q[kept]) + (1 - order) * np.log(mixed[kept]))))
    return float(forth / (order - 1)), float(back / (order - 1))


@pytest.mark.parametrize("rate", [0.05, 0.35, 0.9])
@pytest.mark.parametrize("order", [2, 3, 6, 12])
@pytest.mark.parametrize(("variance", "shift"), [(4.0, 1), (25.0, 3), (400.0, 8)])
def test_sampled_skellam_divergences_are_bounded_and_larger_one_way(
    variance: float, shift: int, rate: float, order: int
) -> None:
    """One coordinate: the bound is above the exact divergence both ways, and near it where noise is large."""
    forth, back = _divergences(variance, shift, rate, order)
    stated = SkellamVector(variance, float(shift), float(shift), rate).rdp(order)
    assert back <= forth * (1 + 1e-9)
    assert forth <= stated
    if variance == 400.0:
        assert stated <= forth * 1.05


@given(st.floats(1e-3, 1e3), st.floats(0.001, 0.999), st.floats(1.01, 64))
def test_the_inequality_behind_it_holds_for_every_likelihood_ratio(ratio: float, rate: float, order: float) -> None:
    """Mironov, Talwar, Zhang 2019, Theorem 5: g(r) + r g(1/r) >= 0, whatever the distributions."""

    def gap(r: float) -> float:
        mixed = 1 - rate + rate * r
        return float(mixed**order - mixed ** (1 - order))

    assert gap(ratio) + ratio * gap(1 / ratio) >= -1e-9 * (1 + abs(gap(ratio)))


@pytest.mark.parametrize("order", [2, 5, 17])
def test_sampled_gaussian_divergences_are_exact(order: int) -> None:
    """Against numerical integration."""
    x = np.linspace(-30, 40, 400_001)
    q = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    ratio = 1 - 0.3 + 0.3 * np.exp(x * 0.8 - 0.32)
    integral = np.log(np.trapezoid(q * ratio**order, x)) / (order - 1)
    assert GaussianVector(1.25, 1.0, 0.3).rdp(order) == pytest.approx(integral, rel=1e-6)


def test_without_sampling_nothing_changes() -> None:
    assert SkellamVector(100.0, 20.0, 5.0, 1.0).rdp(7) == SkellamVector(100.0, 20.0, 5.0).rdp(7)
    assert GaussianVector(2.0, 1.0).rdp(3.5) == pytest.approx(3.5 / 8)
    nearly = GaussianVector(2.0, 1.0, 1 - 1e-9).rdp(4)
    assert nearly == pytest.approx(GaussianVector(2.0, 1.0).rdp(4), rel=1e-6)


def test_events_keep_their_meaning_on_record() -> None:
    for event in (SkellamVector(100.0, 20.0, 5.0, 0.25), GaussianVector(3.0, 1.5, 0.5), GaussianVector(3.0, 1.5)):
        assert event_from_json(event_to_json(event)) == event
    old = {"event": "skellam-vector", "variance": 100.0, "l1": 20.0, "l2": 5.0}
    assert event_from_json(old) == SkellamVector(100.0, 20.0, 5.0)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, float("nan"), True, "1"])
def test_impossible_rates_are_refused(rate: Any) -> None:
    with pytest.raises(ht.SettingError, match="rate"):
        GaussianVector(1.0, 1.0, rate)
    with pytest.raises(ht.SettingError, match="rate"):
        SkellamVector(1.0, 1.0, 1.0, rate)
    if not isinstance(rate, bool):
        with pytest.raises(ht.SettingError, match="rate"):
            Ball(10, 3, rate)


def test_too_little_gaussian_noise_counts_as_none() -> None:
    assert epsilon_of((GaussianVector(0.01, 1.0),), 1e-5) == math.inf
    assert rdp_of((GaussianVector(0.0, 1.0),), 2.0) == math.inf
    assert epsilon_of((GaussianVector(0.0, 0.0),), 1e-5) == 0


@pytest.mark.parametrize("change", ["replace-one", "add-remove"])
def test_sampling_is_for_zero_out_only(change: Any) -> None:
    with pytest.raises(ht.SettingError, match="needs neighbours='zero-out'"):
        Ball(10, 3, 0.5).event(Noise(5.0), change)
    assert Ball(10, 3, 0.5).event(Noise(5.0), "zero-out") == SkellamVector(
        25.0, math.nextafter(3**0.5, 9) * 10, 10.0, 0.5
    )


def test_a_curators_noise_is_gaussian_in_all_bounds() -> None:
    noise = Noise(5.0, "curator")
    assert Ball(10, 3, 0.5).event(noise, "zero-out") == GaussianVector(5.0, 10.0, 0.5)
    assert Ball(10, 3).event(noise, "replace-one") == GaussianVector(5.0, 20.0)
    assert KHot(2, 9).event(noise, "replace-one") == GaussianVector(5.0, math.nextafter(2.0, 9))
    assert KHot(9, 9).event(noise, "replace-one") == GaussianVector(5.0, 0.0)


# ---- the coin ----------------------------------------------------------------------------------------


@register
@dataclass(frozen=True)
class Sampled(SoftVotes):
    """Soft votes of which each is in the sum with chance .3."""

    name: ClassVar[str] = "test-sampled-soft-votes"

    @property
    def bound(self) -> Ball:
        full = super().bound
        return Ball(full.norm, full.length, 0.3)


@pytest.mark.statistical
def test_a_vector_is_in_the_sum_as_often_as_the_rate_says(tmp_path: Path) -> None:
    """1,500 coins at rate .3: 6 sigma, false alarms < 1e-8."""
    inside = party(tmp_path)
    inside.randomness = SimulatedRandomness(1, "coin")
    query = Sampled(CANDIDATES, 0)
    exact = contribution(SoftVotes(CANDIDATES, 0), inside, WHOLE, private=True)
    found = [contribution(query, inside, WHOLE, private=True) for _ in range(1_500)]
    there = np.array([(vector == exact).all() for vector in found])
    assert exact.any()
    assert all(not vector.any() for vector, inside_ in zip(found, there, strict=True) if not inside_)
    assert abs(there.mean() - 0.3) < 6 * math.sqrt(0.3 * 0.7 / 1_500)


def test_the_coin_is_tossed_after_all_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampled or not, the same work is done first: the answer is computed, and then the coin is tossed."""
    order: list[str] = []
    from hushtune.client import release

    heads = release._heads
    answer = SoftVotes.answer
    monkeypatch.setattr(Sampled, "answer", lambda self, party: (order.append("answer"), answer(self, party))[1])
    monkeypatch.setattr(release, "_heads", lambda *a: (order.append("coin"), heads(*a))[1])
    for _ in range(20):
        contribution(Sampled(CANDIDATES, 0), party(tmp_path), WHOLE, private=True)
    assert order == ["answer", "coin"] * 20


def test_replies_of_sampled_and_unsampled_clients_look_alike(tmp_path: Path) -> None:
    noise = Noise(200.0)
    query = Sampled(CANDIDATES, 0)
    events = (query.bound.event(noise, "zero-out"),)
    sizes = set()
    for run in range(12):
        inside = party(tmp_path / str(run))
        message = request(query=query, noise=noise, privacy=ZERO_OUT, events=events).to_bytes()
        reply = respond(message, inside, ROSTER)
        vector_of(reply, query.bound.length)  # no refusal
        sizes.add(len(reply))
    assert len(sizes) == 1


# ---- a trusted curator -------------------------------------------------------------------------------


def test_under_a_curator_the_client_adds_no_noise_and_charges_its_ledger(tmp_path: Path) -> None:
    inside, noise = party(tmp_path), Noise(50.0, "curator")
    query = SoftVotes(CANDIDATES, 0)
    events = (query.bound.event(noise, "zero-out"),)
    message = request(query=query, seal=Curator(), noise=noise, privacy=ZERO_OUT, events=events).to_bytes()
    exact = contribution(query, party(tmp_path / "other"), WHOLE, private=True)
    assert vector_of(respond(message, inside, ROSTER), 5).tolist() == exact.tolist()
    assert inside.ledger is not None
    assert [entry.charge.events for entry in inside.ledger.entries()] == [events]


def test_events_for_shares_are_not_events_for_a_curator(tmp_path: Path) -> None:
    query = SoftVotes(CANDIDATES, 0)
    events = (query.bound.event(Noise(50.0), "zero-out"),)
    message = request(query=query, seal=Curator(), noise=Noise(50.0), privacy=ZERO_OUT, events=events).to_bytes()
    assert "not what the run announced" in refusal(respond(message, party(tmp_path), ROSTER))


def test_a_client_may_refuse_to_trust_a_curator(tmp_path: Path) -> None:
    inside, noise = party(tmp_path), Noise(50.0, "curator")
    inside.client.policy = ht.Policy(seals=("masked",))
    query = SoftVotes(CANDIDATES, 0)
    events = (query.bound.event(noise, "zero-out"),)
    message = request(query=query, seal=Curator(), noise=noise, privacy=ZERO_OUT, events=events).to_bytes()
    assert "seal must be one of ['masked']" in refusal(respond(message, inside, ROSTER))
