"""Data sets and ways to split them among clients."""

from __future__ import annotations

from hushtune.errors import SettingError
from hushtune.rows import Rows


def digits() -> Rows:
    """scikit-learn's handwritten digits: 1,797 images of 8x8 pixels in [0, 1], 10 classes. Needs no download."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return Rows(X / 16.0, y)


def load(name: str) -> Rows:
    """A data set by name."""
    if name != "digits":
        raise SettingError(f"data must be one of ['digits'], but got '{name}'")
    return digits()
