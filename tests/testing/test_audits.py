"""Audits of the vote on neighbouring inputs. Seeded; a false alarm has probability below 1e-6 (see FALSE_ALARM)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.client import release
from hushtune.client.party import Party
from hushtune.client.release import respond
from hushtune.client.request import Request
from hushtune.client.trials import TrialStore
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.roster import Roster
from hushtune.core.secret import Secret
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.accounting import Sums
from hushtune.privacy.bounds import KHot
from hushtune.privacy.calibration import calibrate, events_of
from hushtune.privacy.events.registry import event_from_json
from hushtune.privacy.noise.base import Noise
from hushtune.seals.clear import Clear
from hushtune.seals.plain import vector_of
from hushtune.testing.audits import epsilon_lower_bound

pytestmark = pytest.mark.statistical
FALSE_ALARM = 1e-7
DELTA = 1e-5
K, P = 2, 5
CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=P)


def samples(noise: Noise, honest: int, ballot: list[int], runs: int, label: str) -> np.ndarray:
    """The opened sum of one ballot and the shares of `honest` parties, in many runs, shape (runs, candidates)."""
    shares = sum(noise.share(honest, runs * P, SimulatedRandomness(i, label)).reshape(runs, P) for i in range(honest))
    return np.asarray(shares) + np.array(ballot)


def audit(noise: Noise, one: list[int], other: list[int], runs: int = 400_000) -> float:
    direction = np.array(one) - np.array(other)
    statistics = [samples(noise, 8, ballot, runs, str(ballot)) @ direction for ballot in (one, other)]
    return epsilon_lower_bound(*statistics, DELTA, FALSE_ALARM)


@pytest.mark.long
def test_the_claim_survives_and_halved_noise_is_caught() -> None:
    bound = KHot(K, P)
    noise = calibrate((bound,), ht.Privacy(1.0, DELTA), Sums())
    one, other = [1, 1, 0, 0, 0], [0, 0, 1, 1, 0]
    honest = audit(noise, one, other)
    assert 0.4 < honest <= 1.0  # the audit sees much of the claimed loss, and no more
    assert audit(Noise(noise.scale / 2), one, other) > 1.0


def test_a_removed_bound_is_caught() -> None:
    """A ballot with two votes on each favourite instead of one: what the bound's check prevents."""
    noise = calibrate((KHot(K, P),), ht.Privacy(1.0, DELTA), Sums())
    assert audit(noise, [2, 2, 0, 0, 0], [0, 0, 2, 2, 0]) > 1.0


class Stuffed(TopVotes):
    """A query whose answer breaks its own bound."""

    def answer(self, party: Party) -> Any:
        return super().answer(party) * 6


def party(tmp_path: Path, favourite: float, label: str) -> Party:
    @ht.objective
    def loss(config: ht.Config, data: ht.Rows) -> float:
        return float(abs(config["x"] - data.y[0]))

    client = ht.Client((np.zeros((1, 1)), np.array([favourite])), loss)
    return Party(
        "a",
        client,
        TrialStore(tmp_path / "t.db"),
        tmp_path,
        SimulatedRandomness(0, label),
        secret=Secret.simulated(0, "a"),
    )


def whole_path(tmp_path: Path, query: TopVotes, favourite: float, runs: int, privacy: ht.Privacy) -> np.ndarray:
    """What the server gets from the real `respond` of a single client, in many runs."""
    inside, roster = party(tmp_path, favourite, str(favourite)), Roster(("a",))
    noise = calibrate((query.bound,), privacy, Sums())
    events = events_of((query.bound,), privacy, noise)
    replies = []
    for run in range(runs):
        request = Request(f"{run:032x}", 0, roster.digest(), query, None, Clear(), noise, privacy, 1, events)
        replies.append(vector_of(respond(request.to_bytes(), inside, roster), P))
    return np.array(replies)


@pytest.mark.long
def test_the_whole_way_out_is_within_the_claim_and_a_missing_check_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through `respond` itself, at epsilon 2 with one client. Without the bound's check, stuffing is seen."""
    privacy, runs = ht.Privacy(2.0, DELTA), 800
    direction = np.array([1, 1, 0, -1, -1])

    def seen(query: TopVotes) -> float:
        views = [whole_path(tmp_path, query, favourite, runs, privacy) @ direction for favourite in (0.0, 1.0)]
        return epsilon_lower_bound(*views, DELTA, FALSE_ALARM)

    assert seen(TopVotes(K, CANDIDATES, 0)) <= 2.0
    stuffed = Stuffed(K, CANDIDATES, 0)
    assert seen_with(monkeypatch, seen, stuffed, checked=True) <= 2.0
    assert seen_with(monkeypatch, seen, stuffed, checked=False) > 2.0


def seen_with(
    monkeypatch: pytest.MonkeyPatch, seen: Callable[[TopVotes], float], query: TopVotes, checked: bool
) -> float:
    with monkeypatch.context() as patch:
        patch.setattr(release.Request, "from_bytes", classmethod(lambda cls, message: _parsed(message, query)))
        if not checked:
            patch.setattr(KHot, "check", lambda self, vector: np.asarray(vector))
        return seen(query)


def _parsed(message: bytes, query: TopVotes) -> Request:
    header, _ = release.unpack(message)
    privacy = ht.Privacy(**header["privacy"])
    events = tuple(event_from_json(event) for event in header["events"])
    return Request(header["run"], 0, header["roster"], query, None, Clear(), Noise(header["scale"]), privacy, 1, events)


def test_an_audit_needs_runs() -> None:
    with pytest.raises(ht.SettingError, match="at least 100 runs"):
        epsilon_lower_bound(np.zeros(5), np.zeros(5), DELTA)
