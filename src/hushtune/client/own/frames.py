"""Tables and columns of pandas', with types and categories that follow from their own values."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from hushtune.client.encoding import is_from
from hushtune.client.own.arrays import UNITS, own_numbers, plain


def own_frame(values: Any) -> Any:
    """The same rows, numbered anew, with types and categories that follow from them."""
    if isinstance(values, pd.DataFrame):
        columns = {at: _series(values.iloc[:, at]) for at in range(values.shape[1])}
        found = pd.DataFrame(columns, index=pd.RangeIndex(len(values)))
        found.columns = values.columns
        return found
    if isinstance(values, pd.Series):
        return _series(values)
    found = _series(pd.Series(values))  # an index, or an array of pandas' own
    return pd.Index(found) if isinstance(values, pd.Index) else found.array


def _series(values: Any) -> Any:
    kind = values.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return pd.Series(_categories(values, kind.ordered), name=values.name)
    if isinstance(kind, np.dtype) and kind.kind in "biufc":
        return pd.Series(own_numbers(values.to_numpy()), name=values.name)
    return pd.Series(_settled([_cell(item) for item in values.tolist()]), name=values.name)


def _cell(value: Any) -> Any:
    """A cell as plain Python; moments as pandas' own, in the coarsest unit."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.timedelta64 | dt.timedelta):
        return _coarsest(pd.Timedelta(value))
    if isinstance(value, np.datetime64 | dt.datetime):
        return _coarsest(pd.Timestamp(value))
    found = plain(value)
    return None if isinstance(found, float) and math.isnan(found) else found


def _coarsest(moment: Any) -> Any:
    for unit in ("s", "ms", "us"):
        with suppress(ValueError, OverflowError):
            return moment.as_unit(unit, round_ok=False)
    return moment.as_unit("ns")


def _settled(items: Sequence[Any]) -> Any:
    """A column of the one kind that its values are of; objects, if they are of several."""
    known = [item for item in items if item is not None]
    if all(isinstance(item, int | float) for item in known):
        return own_numbers(np.array([math.nan if item is None else item for item in items], dtype=np.float64))
    if all(isinstance(item, pd.Timedelta) for item in known):
        return pd.array(items, dtype=f"m8[{_finest(known)}]")
    zones = {str(item.tz) for item in known[:1] if isinstance(item, pd.Timestamp)}
    if all(isinstance(item, pd.Timestamp) and {str(item.tz)} == zones for item in known):
        naive = known[0].tz is None
        return pd.array(
            items, dtype=f"M8[{_finest(known)}]" if naive else pd.DatetimeTZDtype(_finest(known), known[0].tz)
        )
    alike = len({type(item) for item in known}) == 1
    return pd.Series(
        items, dtype=None if alike and (isinstance(known[0], str) or is_from(known[0], "pandas")) else object
    )


def _finest(moments: Sequence[Any]) -> str:
    return max((str(moment.unit) for moment in moments), key=UNITS.index)


def _categories(values: Any, ordered: bool) -> Any:
    codes = values.cat.codes.to_numpy()
    used = np.unique(codes[codes >= 0])
    cells = dict(zip(used.tolist(), map(_cell, values.cat.categories[used].tolist()), strict=True))
    names = list(dict.fromkeys(cells.values()))
    names = names if ordered else sorted(names, key=_rank)
    places = {name: place for place, name in enumerate(names)}
    found = [places[cells[code]] if code >= 0 else -1 for code in codes.tolist()]
    return pd.Categorical.from_codes(found, pd.Index(pd.Series(_settled(names))), bool(ordered))


def _rank(value: Any) -> tuple[str, Any]:
    """Where a category comes: numbers first, then by kind, and by value among its kind."""
    if isinstance(value, int | float):
        return "", value
    if isinstance(value, pd.Timestamp | pd.Timedelta):  # a moment with a time zone and one without are not compared
        return f"{type(value).__name__} {getattr(value, 'tz', None)}", value
    return type(value).__name__, value if isinstance(value, str) else repr(value)
