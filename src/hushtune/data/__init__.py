"""Data sets, ways to split them among clients, and who then holds what.

Here live the example data and their readers. It must not know methods, seals or runs.
"""

from __future__ import annotations

import numpy as np

from hushtune.client.rows import Split
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.core.observer import Observer, Silent
from hushtune.data.sources import SOURCES


def load(
    name: str,
    *,
    test: float | None = None,
    rows: int | None = None,
    seed: int = 0,
    observer: Observer = Silent(),
) -> Split:
    """A data set by name, with rows to train on and rows to test on.

    It is looked for in the folder $HUSHTUNE_DATA, then in the user's cache, and then fetched from OpenML ("cifar10",
    "emnist", "svhn", "pc3", "landmine" and "har" are not fetched). What is fetched must have the digest that hushtune
    knows.

    Args:
        name: "digits" (installed with scikit-learn), "mnist", "emnist" (62 classes), "cifar10", "svhn", "adult"; or
            one of FLoRA's tables with two classes, "eeg", "electricity", "heart", "oil_spill", "pc3", "pollen" and
            "sonar"; or, with a subject for every row, "landmine" (29 fields) and "har" (human activities of 30
            persons: a file har.npz with X, y and subject).
        test: share of test rows, for a set without test rows of its own, whose order is shuffled. Default: .2.
        rows: so many training rows only, drawn at random.
        seed: of that draw and of the share of test rows.
        observer: who watches while it is fetched; `Bars()` for a bar.
    """
    if str(name) not in SOURCES:
        raise SettingError(f"data must be one of {sorted(SOURCES)}, but got {name!r}")
    rng = np.random.default_rng(integer("seed", seed, 0))
    found = SOURCES[name](observer)
    if isinstance(found, Split):
        if test is not None:
            raise SettingError(f"data '{name}' has test rows of its own, but got test={test}")
    else:
        share = number("test", 0.2 if test is None else test, 0, 1, "[)")
        order = rng.permutation(len(found))
        cut = max(1, int(share * len(found))) if share else 0
        found = Split(found.take(order[cut:]), found.take(order[:cut]))
    if rows is None:
        return found
    some = rng.permutation(len(found.train))[: integer("rows", rows, 1, len(found.train))]
    return Split(found.train.take(some), found.test)
