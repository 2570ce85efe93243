"""Each record's own bytes, from which its part is chosen where parts are made by content.

They depend on the record's values alone: not on other records, the type of a column, its index, or how a value happens
to be held. One text in an array of numbers turns all of them into texts, one missing value turns integers into floats:
that must move no other record to another part. So all of these are the same:

- numbers of any type by their value as a double, and texts or bytes that read as one: 101, 101.0, Decimal(101), "101";
- true and 1, false and 0, and the texts "True" and "False";
- None, NaN, NaT, pandas.NA, and the texts that stand for them;
- moments of any type and unit by the instant, a date being its first one; without a time zone they count as UTC; texts
  in ISO format too;
- lists, tuples and rows of arrays by their items; rows of a sparse matrix by the entries that are not zero.

That two different records have the same bytes does no harm: they are in the same part. A value with no content that
can be told, such as an object whose text is an address in memory, counts by its type's name; its part refuses it.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MISSING = struct.pack(">cd", b"n", math.nan)
_NO_VALUE = {"", "nan", "none", "nat", "<na>", "na", "n/a", "null"}
_TRUTH = {"true": 1.0, "false": 0.0}
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_ATTOSECONDS = 10**18
_FINER = {"ms": 10**15, "us": 10**12, "ns": 10**9, "ps": 10**6, "fs": 10**3, "as": 1}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def encoded(columns: Sequence[Any]) -> tuple[list[bytes], dict[int, str]]:
    """Each record's own bytes, and by row number the type of a value in it that has no content of its own.

    Args:
        columns: what the records consist of: arrays, tables, matrices or lists of as many rows each.
    """
    odd: dict[int, str] = {}
    records = zip(*(_column(column, odd) for column in columns), strict=True)
    return [_listed(record) for record in records], odd


def is_from(value: Any, package: str) -> bool:
    """Whether a value's type is a package's own: found out without importing it."""
    return type(value).__module__.split(".")[0] == package


def is_sparse(values: Any) -> bool:
    """Whether this is a sparse matrix or array of SciPy's."""
    return is_from(values, "scipy") and hasattr(values, "tocsr")


def canonical_csr(matrix: Any) -> Any:
    """A sparse matrix as rows of entries that are not zero, each once, in the order of their columns."""
    rows = matrix.tocsr().copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows


def _column(column: Any, odd: dict[int, str]) -> list[bytes]:  # noqa: PLR0911 (one branch per kind of column)
    """What one column, or one table, adds to each record."""
    if np.ma.isMaskedArray(column):
        return _each(column.tolist(), odd)
    if is_sparse(column):
        return _sparse(canonical_csr(column))
    if hasattr(column, "columns") and hasattr(column, "iloc") and is_from(column, "pandas"):
        cells = [_column(column.iloc[:, at], odd) for at in range(column.shape[1])]
        return [_listed(row) for row in zip(*cells, strict=True)] if cells else [_listed(())] * len(column)
    if is_from(column, "pyarrow"):
        if hasattr(column, "columns"):
            cells = [_column(values, odd) for values in column.columns]
            return [_listed(row) for row in zip(*cells, strict=True)] if cells else [_listed(())] * len(column)
        column = column.to_pylist()
    if is_from(column, "pandas"):
        return _column(column.to_numpy(), odd) if _is_plain(column.dtype) else _each(column.tolist(), odd)
    if hasattr(column, "__array__"):
        column = np.asarray(column.detach() if hasattr(column, "detach") else column)
        return _numbers(column) if column.dtype.kind in "fiub" else _each(_items(column), odd)
    return _each(column, odd)


def _is_plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "fiub"


def _each(values: Iterable[Any], odd: dict[int, str]) -> list[bytes]:
    found = []
    for row, value in enumerate(values):
        unknown: list[str] = []
        try:
            found.append(_encoded(value, unknown))
        except Exception:  # one record's failure is not another's
            found.append(_nameless(value, unknown))
        if unknown:
            odd.setdefault(row, unknown[0])
    return found


def _numbers(array: NDArray[Any]) -> list[bytes]:
    """The same as `_encoded` gives for each row, at once."""
    doubles = array.astype(">f8") + 0.0  # no minus zero
    doubles = np.where(np.isnan(doubles), math.nan, doubles).astype(">f8")
    told = np.empty((*doubles.shape, 9), dtype=np.uint8)
    told[..., 0] = ord("n")
    told[..., 1:] = np.ascontiguousarray(doubles)[..., None].view(np.uint8).reshape(*doubles.shape, 8)
    for axis in range(array.ndim - 1, 0, -1):
        told = told.reshape(*array.shape[:axis], array.shape[axis] * told.shape[-1])
        head = np.broadcast_to(np.frombuffer(_head(b"[", array.shape[axis]), np.uint8), (*told.shape[:-1], 9))
        told = np.concatenate([head, told], axis=-1)
    return [row.tobytes() for row in told]


def _sparse(rows: Any) -> list[bytes]:
    found = []
    for begin, end in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        places = rows.indices[begin:end].astype(">i8").tobytes()
        values = b"".join(_encoded(value, []) for value in rows.data[begin:end])
        found.append(_head(b"e", rows.shape[1]) + _head(b"[", int(end - begin)) + places + values)
    return found


def _head(tag: bytes, count: int) -> bytes:
    return tag + count.to_bytes(8, "big")


def _listed(items: Sequence[bytes]) -> bytes:
    return _head(b"[", len(items)) + b"".join(items)


def _said(tag: bytes, content: bytes) -> bytes:
    return _head(tag, len(content)) + content


def _number(value: float) -> bytes:
    return _MISSING if math.isnan(value) else struct.pack(">cd", b"n", value + 0.0)


def _items(array: NDArray[Any]) -> Iterable[Any]:
    """An array's rows; moments as NumPy's own scalars, because as Python's the finest ones lose their unit."""
    if array.dtype.kind not in "mMV":
        return array.tolist()  # type: ignore[no-any-return]
    return array


def _encoded(value: Any, unknown: list[str]) -> bytes:  # noqa: PLR0911, PLR0912 (one branch per kind of value)
    """A value's own bytes: no encoding is the beginning of another one."""
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value is np.ma.masked:
        return _MISSING
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bytes | bytearray | np.bytes_):
        try:
            return _text(bytes(value).decode())
        except UnicodeDecodeError:
            return _said(b"b", bytes(value))
    if isinstance(value, complex | np.complexfloating) and value.imag:
        return b"c" + _number(float(value.real)) + _number(float(value.imag))
    if isinstance(value, np.timedelta64 | np.datetime64):
        return _numpy_time(value)
    if isinstance(value, bool | int | float | complex | np.number | np.bool_ | Decimal | Fraction):
        return _any_number(value)
    if isinstance(value, dt.date | dt.timedelta):
        return _python_time(value)
    if isinstance(value, Mapping):
        pairs = sorted(_encoded(name, unknown) + _encoded(item, unknown) for name, item in value.items())
        return _head(b"{", len(pairs)) + b"".join(pairs)
    if isinstance(value, set | frozenset):
        return _head(b"<", len(value)) + b"".join(sorted(_encoded(item, unknown) for item in value))
    if isinstance(value, np.void) and value.dtype.names:
        return _listed([_encoded(value[name], unknown) for name in value.dtype.names])
    if is_sparse(value):
        return _listed(_sparse(canonical_csr(value.reshape(1, -1) if value.ndim == 1 else value)))
    if hasattr(value, "as_py"):
        return _encoded(value.as_py(), unknown)
    if np.ma.isMaskedArray(value):
        return _encoded(value.tolist(), unknown)
    if hasattr(value, "__array__"):
        array = np.asarray(value.detach() if hasattr(value, "detach") else value)
        if array.dtype == object and not array.ndim:
            return _object(value, unknown)
        value = _items(array) if array.ndim else array[()]
        return _encoded(value, unknown) if not array.ndim else _listed([_encoded(item, unknown) for item in value])
    if isinstance(value, list | tuple):
        return _listed([_encoded(item, unknown) for item in value])
    return _object(value, unknown)


def _object(value: Any, unknown: list[str]) -> bytes:
    """Any other object's own text."""
    text = str(value)
    return _nameless(value, unknown) if _ADDRESS.search(text) else _said(b"s", text.encode(errors="surrogatepass"))


def _nameless(value: Any, unknown: list[str]) -> bytes:
    """What has no content that can be told counts by its type's name."""
    unknown.append(f"{type(value).__module__}.{type(value).__qualname__}")
    return _said(b"?", unknown[-1].encode(errors="surrogatepass"))


def _any_number(value: Any) -> bytes:
    try:
        return _number(float(value.real))
    except OverflowError:  # beyond all doubles
        return _number(math.inf if value > 0 else -math.inf)
    except ValueError:  # a signalling NaN
        return _MISSING


def _text(text: str) -> bytes:
    """What a text reads as: an array or a table with one text in it may hold its numbers and dates as texts."""
    plain = str(text).strip()
    if (small := plain.casefold()) in _NO_VALUE:
        return _MISSING
    if small in _TRUTH:
        return _number(_TRUTH[small])
    with suppress(ValueError):
        return _encoded(complex(plain), [])
    if (moment := _MOMENT.fullmatch(plain)) is not None:
        with suppress(ValueError):
            return _python_time(dt.datetime.fromisoformat(plain)) if moment[1] else _numpy_time(np.datetime64(plain))
    return _said(b"s", str(text).encode(errors="surrogatepass"))


def _numpy_time(value: Any) -> bytes:
    if np.isnat(value):
        return _MISSING
    tag = b"t" if isinstance(value, np.datetime64) else b"d"
    unit, count = np.datetime_data(value.dtype)
    if unit == "generic" or (tag == b"d" and unit in ("Y", "M")):
        return _said(b"s", str(value).encode())
    if unit in _FINER:
        amount = int(value.astype(np.int64)) * count * _FINER[unit]
    else:
        amount = int(value.astype(f"{value.dtype.kind}8[s]").astype(np.int64)) * _ATTOSECONDS
    return _said(tag, str(amount).encode())


def _python_time(value: dt.date | dt.timedelta) -> bytes:
    """A date, a moment or a span of time; pandas' own count nanoseconds beside."""
    if isinstance(value, dt.timedelta):
        return _span(b"d", value, getattr(value, "nanoseconds", 0))
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    nanoseconds = getattr(value, "nanosecond", 0)
    moment: dt.datetime = value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
    return _span(b"t", (moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)) - _EPOCH, nanoseconds)


def _span(tag: bytes, span: dt.timedelta, nanoseconds: int) -> bytes:
    microseconds = (span.days * 86_400 + span.seconds) * 10**6 + span.microseconds
    return _said(tag, str(microseconds * _FINER["us"] + nanoseconds * _FINER["ns"]).encode())
