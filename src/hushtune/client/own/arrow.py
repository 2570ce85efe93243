"""Tables and arrays of pyarrow's, with types that follow from their own values."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from hushtune.client.own.arrays import own_numbers, plain


def own_arrow(values: Any) -> Any:
    """The same rows in one chunk, with types that follow from them, and without what a schema says beside."""
    if isinstance(values, pa.Table | pa.RecordBatch):
        return type(values).from_arrays([_arrow(column) for column in values.columns], names=values.schema.names)
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_arrow(values)])
    return _arrow(values) if isinstance(values, pa.Array) else values


def _arrow(column: Any) -> Any:  # noqa: PLR0911 (one branch per kind of column)
    """One array of a column's values: its type follows from them."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if types.is_dictionary(whole.type):
        return _arrow(whole.dictionary_decode())
    if types.is_date(whole.type):
        whole = whole.cast(pa.timestamp("s" if types.is_date32(whole.type) else "ms"))
    if types.is_timestamp(whole.type) or types.is_duration(whole.type):
        return _arrow_moments(whole)
    if types.is_list(whole.type) or types.is_large_list(whole.type) or types.is_fixed_size_list(whole.type):
        return _arrow_lists(whole)
    if types.is_struct(whole.type):
        names = [field.name for field in whole.type]
        return pa.StructArray.from_arrays(list(map(_arrow, whole.flatten())), names, mask=whole.is_null())
    items = whole.to_pylist()
    read = [None if item is None else plain(item) for item in items]
    if all(item is None for item in items):
        return pa.nulls(len(items))
    if all(item is None or isinstance(item, int | float) for item in read):
        known = own_numbers(np.array([item for item in read if item is not None], dtype=np.float64))
        cells = iter(known.tolist())
        return pa.array([None if item is None else next(cells) for item in read], pa.from_numpy_dtype(known.dtype))
    try:
        return pa.array(items)
    except pa.ArrowException:  # a kind that Python has no values for
        return pa.array(items, whole.type)


def _arrow_lists(whole: Any) -> Any:
    lengths = [None if item is None else len(item) for item in whole.to_pylist()]
    inside = _arrow(whole.flatten())
    items = iter(inside.to_pylist())
    rows = [None if length is None else [next(items) for _ in range(length)] for length in lengths]
    return pa.array(rows, pa.list_(inside.type))


def _arrow_moments(whole: Any) -> Any:
    zone = (whole.type.tz,) if types.is_timestamp(whole.type) else ()
    kind = pa.timestamp if zone else pa.duration
    if whole.null_count == len(whole):
        return pa.nulls(len(whole))
    for unit in ("s", "ms", "us"):
        with suppress(pa.ArrowInvalid):
            return whole.cast(kind(unit, *zone))
    return whole.cast(kind("ns", *zone))
