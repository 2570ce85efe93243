"""Types of a part's own: whichever kind of array or table its rows are in."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushtune.client.encoding import is_from, is_sparse
from hushtune.client.own.arrays import own_array, own_sparse


def own(values: Any) -> Any:
    """The same rows, with types and categories that follow from nothing else."""
    if isinstance(values, np.ndarray):
        return own_array(values)
    if is_sparse(values):
        return own_sparse(values)
    if is_from(values, "pandas"):
        from hushtune.client.own.frames import own_frame

        return own_frame(values)
    if is_from(values, "pyarrow"):
        from hushtune.client.own.arrow import own_arrow

        return own_arrow(values)
    return values
