from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.client.objectives.base import checked_losses, for_part
from hushtune.core.errors import ObjectiveError


def test_a_function_of_one_config_becomes_batch_first() -> None:
    @ht.objective
    def square(config: ht.Config, data: float) -> float:
        return float((config["x"] - data) ** 2)

    np.testing.assert_allclose(square.losses([{"x": 1.0}, {"x": 3.0}], 2.0, seed=0), [1.0, 1.0])


def test_a_function_may_take_the_seed() -> None:
    @ht.objective
    def seeded(config: ht.Config, data: None, seed: int) -> float:
        return float(seed)

    np.testing.assert_allclose(seeded.losses([{}], None, seed=5), [5.0])


def test_other_signatures_are_refused() -> None:
    with pytest.raises(ht.SettingError, match="got 1 parameters"):

        @ht.objective
        def bad(config: ht.Config) -> float:
            return 0.0


@pytest.mark.parametrize("returned", [[1.0], [[1.0, 2.0]], ["a", "b"], None, 3.0])
def test_losses_must_be_one_number_per_config(returned: Any) -> None:
    class Bad:
        def losses(self, configs: Sequence[ht.Config], data: Any, seed: int) -> Any:
            return returned

    with pytest.raises(ObjectiveError, match="2 numbers for 2 configs"):
        checked_losses(Bad(), [{"x": 1}, {"x": 2}], None, 0)


class Told:
    def __init__(self, parts: Any = 1) -> None:
        self.parts = parts

    def losses(self, configs: Sequence[ht.Config], data: Any, seed: int) -> np.ndarray:
        return np.zeros(len(configs))

    def as_part(self, parts: int) -> Any:
        return Told(parts)


def test_an_objective_is_told_how_many_parts_there_are() -> None:
    whole = Told()
    assert for_part(whole, 5).parts == 5
    assert for_part(whole, 1) is whole
    assert whole.parts == 1


@pytest.mark.parametrize("objective", [None, ht.objective(lambda config, data: 0.0)])
def test_an_objective_that_cannot_be_told_stays_as_it_is(objective: Any) -> None:
    assert for_part(objective, 5) is objective


def test_what_a_part_gets_must_be_an_objective() -> None:
    class Odd(Told):
        def as_part(self, parts: int) -> Any:
            return parts

    with pytest.raises(ObjectiveError, match=r"as_part\(5\) must return an objective, but got int"):
        for_part(Odd(), 5)
