"""How many runs there are: its distribution, and what a score costs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, geom, logser, poisson

from hushtune.core.errors import SettingError
from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.events.training import TrainingSteps
from hushtune.training.strategies import RepeatAndSelect, TryAll, Untuned, runs_drawn, score_noise


@pytest.mark.statistical
@pytest.mark.parametrize(("shape", "mean"), [(1.0, 4.0), (0.0, 4.0), (None, 4.0), (0.5, 3.0)])
def test_the_number_of_runs_has_its_distribution(shape: float | None, mean: float) -> None:
    """Chi-square with false-alarm rate 1e-7, and the mean within 6 standard errors (below 1e-8)."""
    randomness = SimulatedRandomness(5, f"runs {shape}")
    drawn = np.array([runs_drawn(mean, shape, randomness) for _ in range(2_000)])
    assert abs(drawn.mean() - mean) < 6 * drawn.std() / np.sqrt(len(drawn))
    assert drawn.min() >= (0 if shape is None else 1)
    exact: dict[Any, Any] = {1.0: geom(1 / mean), None: poisson(mean), 0.0: logser(_logarithmic(mean))}
    if shape in exact:
        counts, places = Counter(drawn.tolist()), range(0, 9)
        expected = np.array([exact[shape].pmf(k) for k in places] + [exact[shape].sf(8)]) * len(drawn)
        found = np.array([counts[k] for k in places] + [sum(v for k, v in counts.items() if k > 8)])
        some = expected > 0
        statistic = float(((found - expected)[some] ** 2 / expected[some]).sum())
        assert statistic < chi2.isf(1e-7, int(some.sum()) - 1)


def _logarithmic(mean: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(lambda p: logser.mean(p) - mean, 1e-6, 1 - 1e-9))


def test_the_best_of_the_runs_is_kept_and_ties_go_to_the_first() -> None:
    made: list[int] = []

    def attempt(place: int) -> tuple[str, float]:
        made.append(place)
        return f"model {len(made)}", float(place >= 2)

    place, model = RepeatAndSelect(mean=50.0, shape=None).choose(attempt, 4, SimulatedRandomness(0, "ties"))
    first = next(at for at, candidate in enumerate(made) if candidate >= 2)
    assert (place, model) == (made[first], f"model {first + 1}")
    assert TryAll().choose(lambda at: (at, -abs(at - 2.0)), 4, SimulatedRandomness(0, "")) == (2, 2)
    assert Untuned(1).choose(lambda at: (f"model {at}", 0.0), 4, SimulatedRandomness(0, "")) == (1, "model 1")


def test_a_score_costs_its_share_of_training() -> None:
    step = TrainingSteps(1.0, 0.01, 500)
    deviation = score_noise(step, 0.1)
    assert 2 / (2 * deviation**2) == pytest.approx(0.1 * step.rdp(2.0))
    assert score_noise(step, 0.01) > deviation
    (event,) = RepeatAndSelect().events(step, 12, protected=True)
    assert event.score == deviation  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "make",
    [
        lambda: RepeatAndSelect(mean=0.5),
        lambda: RepeatAndSelect(mean=1.0),
        lambda: RepeatAndSelect(shape=-1.0),
        lambda: RepeatAndSelect(scoring=0.0),
        lambda: TryAll(scoring=float("nan")),
        lambda: Untuned(-1),
        lambda: Untuned(5).events(TrainingSteps(1.0, 0.1, 1), 5, False),
    ],
)
def test_bad_settings_are_refused(make: Any) -> None:
    with pytest.raises(SettingError):
        make()
