from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from hushtune.data import digits, load
from hushtune.data.splits import dirichlet, iid, split

LABELS = np.repeat(np.arange(10), 100)


@pytest.mark.parametrize("how", ["iid", "dirichlet:5", "dirichlet:0.1"])
def test_every_row_goes_to_exactly_one_client(how: str) -> None:
    parts = split(how, LABELS, 40, seed=2)
    assert sorted(np.concatenate(parts).tolist()) == list(range(1000))
    assert min(map(len, parts)) >= 5
    for one, other in zip(parts, split(how, LABELS, 40, seed=2), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_smaller_alpha_is_more_skewed() -> None:
    def largest_share(alpha: float) -> float:
        parts = dirichlet(LABELS, 20, alpha, seed=0)
        return float(np.mean([np.bincount(LABELS[p], minlength=10).max() / len(p) for p in parts]))

    assert largest_share(0.1) > 2 * largest_share(100.0)


def test_digits_need_no_download() -> None:
    assert len(load("digits")) == len(digits()) == 1797
    assert digits().X.max() == 1.0


def test_impossible_splits() -> None:
    with pytest.raises(ht.SettingError, match="clients=2000"):
        iid(LABELS, 2000, 0)
    with pytest.raises(ht.SettingError, match="alpha=0"):
        dirichlet(LABELS, 10, 0, 0)
