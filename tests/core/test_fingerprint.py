from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.fingerprint import fingerprint

CODE = """
from hushtune.core.fingerprint import fingerprint
import numpy as np
def f(config, data): return config["x"] in {"a", "b", "c"}
print(fingerprint([np.arange(3.0), {"b": 1, "a": 2}, f, "text", None, {"x", "y", "z"}]))
"""


def test_equal_in_every_process() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": s}
        )
        for s in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout != ""


@dataclass
class Point:
    x: int


def closure(value: float) -> Callable[[], float]:
    return lambda: value


def add(x: int) -> int:
    return x + 1


def subtract(x: int) -> int:
    return x - 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(3), np.arange(3.0)),
        (np.arange(4), np.arange(4).reshape(2, 2)),
        ([1, [2]], [[1], 2]),
        ({"a": 1}, {"a": 2}),
        (1, True),
        (1, "1"),
        (Point(1), Point(2)),
        (closure(1.0), closure(2.0)),
        (add, subtract),
        (ht.Rows(np.zeros(2), np.zeros(2)), ht.Rows(np.zeros(2), np.ones(2))),
    ],
)
def test_different_content_differs(one: Any, other: Any) -> None:
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(one)


def test_code_counts_wherever_it_stands() -> None:
    """An edited method, helper, global or class constant is another objective."""
    base = {
        "helper": "def helper(x): return x\n",
        "rate": "RATE = 1.0\n",
        "kind": "class Kind:\n    scale = 2.0\n    def losses(self, c, d, s): return helper(RATE * self.scale)\n",
    }
    changes = {
        "helper": "def helper(x): return -x\n",
        "rate": "RATE = 3.0\n",
        "kind": base["kind"].replace("2.0", "4.0"),
    }

    def key(pieces: dict[str, str]) -> str:
        scope: dict[str, Any] = {"__name__": "made_up"}
        exec("".join(pieces.values()), scope)
        return fingerprint(scope["Kind"]())

    assert key(base) == key(base)
    assert len({key(base), *(key({**base, name: text}) for name, text in changes.items())}) == 4


def test_recursive_code_and_nested_mappings() -> None:
    def countdown(n: int) -> int:
        return countdown(n - 1) if n else 0

    assert fingerprint(countdown) == fingerprint(countdown)
    assert fingerprint({"a": {}, "b": 1}) != fingerprint({"a": {"b": 1}})
    assert fingerprint(np.array(["yes", "no", "yes"], dtype=object)) == fingerprint(
        np.array(["ye" + "s", "no", "".join(["y", "es"])], dtype=object)
    )


def test_order_of_a_mapping_does_not_matter() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


def test_what_cannot_be_fingerprinted_says_what_to_do() -> None:
    with pytest.raises(ht.SettingError, match="fingerprint"):
        fingerprint(x for x in range(3))


def test_values_that_hide_their_content_are_told_apart() -> None:
    """A tensor's content is not among its fields; a masked array's mask is not among its values."""
    import array

    class Numbers(array.array):  # type: ignore[type-arg]
        pass

    assert fingerprint(Numbers("d", [1.0])) != fingerprint(Numbers("d", [2.0]))
    data = np.arange(3.0)
    assert fingerprint(np.ma.array(data, mask=[1, 0, 0])) != fingerprint(np.ma.array(data, mask=[0, 0, 1]))


def test_copying_an_object_does_not_change_what_its_class_is() -> None:
    class Fresh:
        pass

    before = fingerprint(Fresh())
    copy.deepcopy(Fresh())
    assert "__slotnames__" in vars(Fresh)
    assert fingerprint(Fresh()) == before
