"""What clients contribute to a surface stays within its bound, whatever their losses are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import hushtune as ht
from hushtune.client.pairs import Pairs
from hushtune.client.party import Party
from hushtune.client.query import query_from_json, query_to_json
from hushtune.client.search.adaptive import Adaptive
from hushtune.client.trials import TrialStore
from hushtune.core.errors import NoLossError, WireError
from hushtune.core.observer import unseen
from hushtune.core.randomness import SystemRandomness
from hushtune.core.secret import Secret
from hushtune.methods.contributions import CentredScores, PredictedScores, SentPairs
from hushtune.methods.surface.models import forest
from hushtune.privacy.events.sums import SkellamVector
from hushtune.privacy.noise.base import Noise
from hushtune.testing import check_query

SPACE = ht.Space(x=ht.Float(0.0, 1.0), kind=ht.Choice(["a", "b"]))
CANDIDATES = SPACE.sample(40)
SEARCH = Adaptive(0, 12)
UNIT = (0.0, 1.0)


class Known:
    """Has a loss for every candidate."""

    def __init__(self, losses: Any) -> None:
        self.known = np.asarray(losses, dtype=np.float64)

    def fingerprint(self) -> str:
        return repr(self.known.tolist())

    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        return np.array([self.known[CANDIDATES.index(config)] for config in configs])


class Bowl:
    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        return np.array([(c["x"] - data.y[0]) ** 2 + 0.2 * (c["kind"] == "a") for c in configs])


def party(folder: Path, objective: Any) -> Party:
    client = ht.Client((np.zeros((1, 1)), np.array([0.4])), objective)
    return Party(
        "a", client, TrialStore(folder / "trials.db"), folder, SystemRandomness(), secret=Secret.simulated(0, "a")
    )


def searched(folder: Path) -> Party:
    found = party(folder, Bowl())
    SEARCH.fill([found], SPACE, 1, unseen, private=False)
    return found


losses = arrays.arrays(np.float64, 40, elements=st.floats(allow_nan=True, allow_infinity=True, width=64))


@settings(max_examples=60)
@given(losses, losses, st.sampled_from([0.01, 0.05, 0.5]))
def test_any_two_clients_differ_by_no_more_than_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, one: np.ndarray, other: np.ndarray, spread: float
) -> None:
    """PRIVACY: centred predictions clipped to norm C have sensitivity 2C."""
    query = CentredScores(ht.Search(), CANDIDATES, UNIT, 40, spread)
    folder = tmp_path_factory.mktemp("trials")
    vectors = []
    for values in (one, other):
        try:
            vectors.append(query.bound.check(query.answer(party(folder, Known(values)))))
        except NoLossError:
            vectors.append(query.bound.default(SystemRandomness()))
    event = query.bound.event(Noise(10.0), "replace-one")
    assert isinstance(event, SkellamVector)
    change = vectors[0] - vectors[1]
    assert np.sqrt(change @ change) <= event.l2 == 2 * query.bound.norm
    assert np.abs(change).sum() <= event.l1


def test_a_strong_opinion_is_shortened_and_a_weak_one_stays_weak(tmp_path: Path) -> None:
    query = CentredScores(ht.Search(), CANDIDATES, UNIT, 40, 0.05)
    slope = np.linspace(0, 1, 40)
    strong = query.answer(party(tmp_path, Known(slope)))
    weak = query.answer(party(tmp_path, Known(0.5 + 0.01 * slope)))
    assert 0.95 * query.bound.norm < np.linalg.norm(strong) <= query.bound.norm
    np.testing.assert_allclose(strong, (0.5 - slope) * query.bound.norm / np.linalg.norm(0.5 - slope), atol=1)
    steps = query.bound.norm / (0.05 * np.sqrt(40))  # of the integer grid, for a loss of 1
    np.testing.assert_allclose(weak, (0.5 - slope) * 0.01 * steps, atol=1)
    assert abs(int(strong.sum())) <= 40
    assert not query.answer(party(tmp_path, Known(np.full(40, 0.3)))).any()


def test_without_a_range_a_single_loss_would_drown_the_others(tmp_path: Path) -> None:
    """Clipping to the stated range comes first: a loss of 10^300 counts as the largest."""
    query = CentredScores(ht.Search(), CANDIDATES, UNIT, 40, 0.05)
    values = np.linspace(0, 1, 40)
    wild = values.copy()
    wild[39] = 1e300
    np.testing.assert_array_equal(
        query.answer(party(tmp_path, Known(wild))), query.answer(party(tmp_path, Known(values)))
    )


def test_predictions_are_those_of_the_clients_own_forest(tmp_path: Path) -> None:
    found = searched(tmp_path)
    trials = SEARCH.found(found, SPACE)
    pairs = Pairs(SPACE.encode([config for config, _ in trials]), np.array([loss for _, loss in trials])).best(8)
    expected = 1 - forest(pairs, 0).predict(CANDIDATES.encoded)
    vector = PredictedScores(SEARCH, CANDIDATES, UNIT, 8).answer(found)
    np.testing.assert_allclose(vector[:40] / 2**20, expected, atol=1e-6)
    assert vector[40] == 0


def test_scored_candidates_need_no_model_and_failed_ones_are_as_bad_as_the_worst(tmp_path: Path) -> None:
    values = np.linspace(0.2, 0.9, 40)
    values[3], values[5], values[7], values[9] = np.nan, np.inf, 2.0, -np.inf
    vector = PredictedScores(ht.Search(), CANDIDATES, UNIT, 40).answer(party(tmp_path, Known(values)))
    expected = np.where(np.isfinite(values), np.minimum(values, 1.0), 1.0)
    np.testing.assert_allclose(vector[:40] / 2**20, 1 - expected, atol=1e-6)
    assert vector[40] == 1  # one finite loss was outside the range


def test_the_best_pairs_are_sent(tmp_path: Path) -> None:
    from hushtune.client.pairs import read
    from hushtune.seals.forms import in_blocks

    found, query = searched(tmp_path), SentPairs(SEARCH, SPACE, UNIT, 5)
    vector = query.bound.check(query.answer(found))
    pairs, _ = read(in_blocks(query.blocks, vector), UNIT)
    best = sorted(SEARCH.found(found, SPACE), key=lambda trial: trial[1])[:5]
    np.testing.assert_allclose(pairs.losses, [loss for _, loss in best], atol=1e-11)
    assert [config["kind"] for config in SPACE.decode(pairs.points)] == [config["kind"] for config, _ in best]


@pytest.mark.parametrize(
    "query",
    [
        SentPairs(SEARCH, SPACE, UNIT, 5),
        SentPairs(ht.Search(3), CANDIDATES, UNIT, 5),
        PredictedScores(SEARCH, CANDIDATES, UNIT, 5),
        CentredScores(ht.Search(), CANDIDATES, (-1.0, 2.0), 5, 0.1),
    ],
    ids=lambda query: query.name,
)
def test_queries_conform(query: Any) -> None:
    check_query(query)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"search": {"trials": 0}}, "trials"),
        ({"search": {"trial": 3}}, "unknown or missing"),
        ({"search": None}, "unknown or missing"),
        ({"search": {"seed": 0}}, "searched by Search.adaptive"),
        ({"losses": [1.0, 0.0]}, "smallest < largest"),
        ({"losses": [0.0, float("inf")]}, "losses"),
        ({"losses": 3}, "pair"),
        ({"send": 1}, "2 <= send"),
        ({"send": 10**9}, "send"),
        ({"domain": 5}, "a space must be JSON"),
    ],
)
def test_bad_queries_are_refused(change: dict[str, Any], message: str) -> None:
    raw = query_to_json(SentPairs(SEARCH, SPACE, UNIT, 5))
    with pytest.raises((ht.SettingError, WireError), match=message):
        query_from_json({**raw, **change})


def test_no_epsilon_covers_pairs_or_exact_scores() -> None:
    for query in (SentPairs(SEARCH, SPACE, UNIT, 5), PredictedScores(SEARCH, CANDIDATES, UNIT, 5)):
        with pytest.raises(ht.SettingError, match="no epsilon covers"):
            query.bound.event(Noise(10.0), "replace-one")


def test_a_client_refuses_less_noise_than_its_guarantee_needs(tmp_path: Path) -> None:
    from tests.client.harness import PRIVACY, ROSTER, refusal, request

    from hushtune.client.release import respond
    from hushtune.privacy.accounting import Sums
    from hushtune.privacy.calibration import calibrate, events_of

    query = CentredScores(ht.Search(), CANDIDATES, UNIT, 40, 0.05)
    noise = calibrate((query.bound,), PRIVACY, Sums())
    for scale, accepted in ((noise.scale, True), (noise.scale / 2, False)):
        events = events_of((query.bound,), PRIVACY, Noise(scale))
        message = request(query=query, noise=Noise(scale), events=events).to_bytes()
        reply = respond(message, party(tmp_path, Known(np.linspace(0, 1, 40))), ROSTER)
        if accepted:
            assert b"vector" in reply
        else:
            assert "the noise asked for costs epsilon" in refusal(reply)
    pairs = request(query=SentPairs(SEARCH, SPACE, UNIT, 5), noise=noise).to_bytes()
    assert "no epsilon covers" in refusal(respond(pairs, party(tmp_path, Bowl()), ROSTER))
