from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hushtune.core.processes.pool import in_order
from hushtune.core.processes.sharing import LARGE, Sharing, loads
from hushtune.core.processes.worker import end_waiting

ROWS = LARGE // 8


def given(arrays: list[int]) -> list[int]:
    return [os.dup(array) for array in arrays]  # a worker gets descriptors of its own


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_large_array_is_written_once_and_is_the_same_again(order: str) -> None:
    sharing, array = Sharing(), np.asarray(np.arange(2.0 * ROWS).reshape(2, -1), order=order)  # type: ignore[call-overload]
    (one, first), (other, second) = sharing.dumps(["a", array]), sharing.dumps(["b", array, np.zeros(3)])
    assert first == second
    assert len(first) == 1
    assert len(one) + len(other) < 10_000
    label, found, small = loads(other, given(second))
    assert label == "b"
    assert small.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(found, array)
    sharing.close()
    np.testing.assert_array_equal(found, array)  # what was mapped stays


def test_who_writes_into_it_writes_into_a_copy() -> None:
    sharing, array = Sharing(), np.zeros(ROWS)
    content, arrays = sharing.dumps(array)
    one, other = loads(content, given(arrays)), loads(content, given(arrays))
    one[:] = 7
    assert array.sum() == other.sum() == 0
    sharing.close()


def test_small_arrays_and_other_systems_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Sharing().dumps(np.zeros(ROWS - 1))[1] == []
    monkeypatch.delattr(os, "memfd_create")
    content, arrays = Sharing().dumps(np.ones(ROWS))
    assert arrays == []
    assert loads(content, []).sum() == ROWS


def shared() -> int:
    return sum("memfd:hushtune" in os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink())


def _changed(array: np.ndarray, by: int) -> float:
    array += by
    return float(array.sum())


def test_workers_get_the_arrays_and_no_descriptor_stays_open() -> None:
    array = np.zeros(ROWS)
    before = shared()
    found = list(in_order(_changed, ((array, by) for by in range(6)), 2))
    end_waiting()
    assert found == [float(ROWS * by) for by in range(6)]
    assert array.sum() == 0
    assert shared() == before == 0
