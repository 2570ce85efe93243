from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from hushtune.data.splits import by_column, dirichlet, iid, imb1, imb2, listed, quantity, shares, split

LABELS = np.repeat(np.arange(10), 100)


@pytest.mark.parametrize("how", ["iid", "dirichlet:5", "dirichlet:0.1", "quantity:0.3"])
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


def test_impossible_splits() -> None:
    with pytest.raises(ht.SettingError, match="clients=2000"):
        iid(LABELS, 2000, 0)
    with pytest.raises(ht.SettingError, match="alpha=0"):
        dirichlet(LABELS, 10, 0, 0)


def test_quantities_differ_and_labels_do_not() -> None:
    sizes = [len(part) for part in quantity(LABELS, 10, 0.3, seed=1, smallest=20)]
    assert min(sizes) >= 20
    assert max(sizes) > 3 * min(sizes)
    largest = max(quantity(LABELS, 10, 0.3, seed=1), key=len)
    counts = np.bincount(LABELS[largest], minlength=10)
    assert counts.min() > 0.5 * counts.mean()


def test_one_client_for_each_value_of_a_column() -> None:
    fields = np.array(["b", "a", "b", "c", "a"])
    assert [part.tolist() for part in by_column(fields)] == [[1, 4], [0, 2], [3]]


def test_floras_skews() -> None:
    mild, strong = imb1(LABELS, 0), imb2(LABELS, 0)
    for parts in (mild, strong):
        assert sorted(np.concatenate(parts).tolist()) == list(range(1000))
    even = [float(np.mean(LABELS[part] % 2 == 0)) for part in mild]
    assert min(even[:2]) > 0.7
    assert max(even[2:]) < 0.3
    assert [sorted(set(LABELS[part].tolist())) for part in strong] == [[0, 1], [2, 3], [4, 5], [6, 7, 8, 9]]
    with pytest.raises(ht.SettingError, match="is for 4 clients, but got clients=5"):
        split("imb1", LABELS, 5, 0)


def test_feature_skew_grows_with_the_client() -> None:
    rows = ht.Rows(np.zeros((1000, 20), dtype=np.float32), LABELS)
    found = shares("noise:2", rows, 10, seed=0)
    deviations = [float(share.X.std()) for share in found]
    assert deviations == pytest.approx([0.2 * (number + 1) for number in range(10)], rel=0.1)
    assert found[0].X.dtype == np.float32
    assert [share.y.tolist() for share in found] == [share.y.tolist() for share in shares("iid", rows, 10, seed=0)]


def test_several_splits_in_one_text() -> None:
    assert listed("iid,dirichlet:30,5,0.5") == ["iid", "dirichlet:30", "dirichlet:5", "dirichlet:0.5"]
    assert listed("dirichlet:1,iid") == ["dirichlet:1", "iid"]
    with pytest.raises(ht.SettingError, match="split must be"):
        shares("5", ht.Rows(LABELS, LABELS), 10, seed=0)


@pytest.mark.parametrize("how", ["noise:", "noise:-1", "noise:nan", "dirichlet:0"])
def test_a_split_needs_a_number_above_zero(how: str) -> None:
    with pytest.raises(ht.SettingError, match="number"):
        shares(how, ht.Rows(LABELS, LABELS), 10, seed=0)
