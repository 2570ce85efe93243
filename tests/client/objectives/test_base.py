from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.client.objectives.base import checked_losses
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
