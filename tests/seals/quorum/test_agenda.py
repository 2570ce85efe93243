"""What a request lets be asked: everything that privacy rests on follows from it, and nothing from the coordinator."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.errors import HushtuneError, RefusedError
from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.bounds import Ball, Bound, Box, KHot, Scores, Tally
from hushtune.privacy.noise import geometric
from hushtune.privacy.noise.base import Noise
from hushtune.seals.forms import Form
from hushtune.seals.quorum.agenda import Agenda, KnownSums
from hushtune.seals.quorum.questions import Above, Quotient, Reaching, Total, Winner

NOISE = Noise(8.0, "nodes", 3)
TALLY = Tally(4, 2, 1)
BLOCKS = {"counts": 2, "sums": 2}
ABOVE = {"name": "above", "level": [1, 2], "order": [2, 0, 1]}


def agenda(
    bound: Bound, form: Form | None = None, noise: Noise = NOISE, units: int = 10, added: tuple[int, ...] = ()
) -> Agenda:
    return Agenda(bound, form, BLOCKS, noise, units, added)


def test_a_winner_gets_no_less_noise_than_its_cost_says() -> None:
    for scale in (0.3, 2.0, 8.0, 97.24):
        question = agenda(KHot(2, 5, 1), noise=Noise(scale, "nodes", 3)).question({"name": "winner"})
        assert question == Winner(geometric.rate_of(scale), 10)
        assert question.rate is not None
        assert question.rate <= 1 / Fraction(scale)
    assert agenda(Scores(5, 2, 16, 16), units=40).question({"name": "winner"}) == Winner(Fraction(1, 8), 640)
    assert agenda(KHot(2, 5, 1), noise=Noise(0.0, "nodes", 3)).question({"name": "winner"}) == Winner(None, 10)


def test_what_is_added_is_what_the_request_says() -> None:
    found = agenda(KHot(2, 3, 1), added=(0, 7, 2))
    found.check()
    assert found.question({"name": "winner"}) == Winner(Fraction(1, 8), 10, (0, 7, 2))
    for bound, added in ((Scores(3, 2, 16, 16), (0, 7, 2)), (KHot(2, 3), (0, 7, 2)), (KHot(2, 3, 1), (0, 7))):
        with pytest.raises(ht.SettingError, match="added where only a winner is asked for"):
            agenda(bound, added=added).check()


def test_a_level_is_tested_under_the_scale_and_sums_under_twice_that() -> None:
    found = agenda(Scores(3, 2, 16, 16)).question(ABOVE)
    assert found == Above(Fraction(1, 8), Fraction(1, 16), 160, 80, (2, 0, 1))
    odd = agenda(Scores(3, 2, 16, 16), noise=Noise(2.0**19 - 0.37, "nodes", 3)).question(ABOVE)
    assert isinstance(odd, Above)
    assert odd.half <= 1 / (2 * Fraction(2.0**19 - 0.37))


@pytest.mark.parametrize(
    ("form", "found"),
    [
        (None, Total(0, 4, Fraction(64))),
        (Form("sums"), Total(2, 4, Fraction(64))),
        (Form("counts", at_least=3), Reaching(0, 2, 3, 40)),
        (Form("sums", over="counts", least=1), Quotient((2, 4), (0, 2), 40)),
    ],
    ids=str,
)
def test_an_opening_is_the_form_that_was_announced(form: Form | None, found: Any) -> None:
    assert agenda(TALLY, form).question({"name": "sum"}) == found


@pytest.mark.parametrize(
    ("bound", "raw"),
    [
        (KHot(2, 5, 1), {"name": "sum"}),  # what is tested is never opened
        (TALLY, {"name": "winner"}),
        (TALLY, ABOVE),
        (KHot(1, 3, 1), ABOVE),  # only maxima were announced, at half the cost
        (Scores(3, 1, 16, 16, only_max=True), ABOVE),
        (KHot(2, 5, 1), {"name": "winner", "added": [0, 0, 0, 0, 9]}),
        (KHot(2, 5, 1), {"name": "winner", "rate": [1, 1]}),
        (TALLY, {"name": "sum", "stop": 1}),
        (Scores(3, 1, 16, 16), ABOVE | {"level": [1, 0]}),
        (Scores(3, 1, 16, 16), ABOVE | {"level": [1]}),
        (Scores(3, 1, 16, 16), ABOVE | {"level": [1, -1]}),
        (Scores(3, 1, 16, 16), ABOVE | {"level": [17, 1]}),
        (Scores(3, 1, 16, 16), ABOVE | {"level": [True, 1]}),
        (Scores(3, 1, 16, 16), ABOVE | {"level": 0.5}),
        (Scores(3, 1, 16, 16), ABOVE | {"order": [0, 1]}),
        (Scores(3, 1, 16, 16), ABOVE | {"order": [0, 1, 1]}),
        (Scores(3, 1, 16, 16), ABOVE | {"order": [0, 1, 3]}),
        (Scores(3, 1, 16, 16), ABOVE | {"order": [0, 1, 2.0]}),
        (Scores(3, 1, 16, 16), {"name": "everything"}),
        (Scores(3, 1, 16, 16), {}),
    ],
    ids=str,
)
def test_what_was_not_announced_is_refused(bound: Bound, raw: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        agenda(bound).question(raw)


def test_a_test_against_a_level_needs_noise() -> None:
    with pytest.raises(RefusedError, match="need noise"):
        agenda(Scores(3, 1, 16, 16), noise=Noise(0.0, "nodes", 3)).question(ABOVE)


@pytest.mark.parametrize(
    ("bound", "form", "units", "reason"),
    [
        (Box(2**20, 3), None, 2**37, r"at most 2\^56"),
        (Ball(9, 4), Form("sums", at_least=3), 10, "may be negative"),
        (KHot(1, 16_385, 1), None, 10, "3 nodes compute with at most 16384 entries, but got 16385"),
    ],
    ids=str,
)
def test_what_nodes_cannot_hold_or_compute_is_refused(bound: Bound, form: Form, units: int, reason: str) -> None:
    with pytest.raises(ht.SettingError, match=reason):
        agenda(bound, form, units=units).check()


def test_known_sums_are_answered_no_more_often_than_announced() -> None:
    known = KnownSums(np.array([3, 9, 1]), agenda(Scores(3, 2, 16, 16)), SimulatedRandomness(0, "x"))
    place = known.noisy_max()
    assert known.above_threshold(Fraction(-9), [2, 1, 0]) == 2
    with pytest.raises(HushtuneError, match="the 2 tests it announced"):
        known.noisy_max()
    assert known.answers == [place, 2]


def test_known_sums_without_noise() -> None:
    known = KnownSums(
        np.array([3, 9, 9]), agenda(KHot(1, 3, 1), noise=Noise(0.0, "nodes", 3)), SimulatedRandomness(0, "")
    )
    assert known.noisy_max() == 1
