"""Arrays of NumPy's, and sparse matrices of SciPy's, with types that follow from their own values."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtune.client.encoding import canonical_csr

UNITS = ("D", "s", "ms", "us", "ns", "ps", "fs", "as")
"""Of moments, from the coarsest on."""
_WHOLE = 2**53  # up to here a double holds every integer
_TRUTH = {"True": 1, "False": 0}


def own_array(values: NDArray[Any]) -> NDArray[Any]:  # noqa: PLR0911 (one branch per kind of array)
    """The same values, in an array whose type follows from them."""
    if isinstance(values, np.ma.MaskedArray):
        mask, held = np.ma.getmaskarray(values), np.ma.getdata(values).copy()
        held[mask] = np.zeros((), held.dtype)  # what a mask hides is nobody's value
        return np.ma.array(own_array(held), mask=mask)
    values, kind = np.asarray(values), values.dtype.kind
    if values.dtype.names:
        return _fields(values)
    if not values.size:
        return np.zeros(values.shape, dtype=np.int64)
    if kind in "biufc":
        return own_numbers(values)
    if kind in "mM":
        return _moments(values)
    if kind in "OUST":
        return _objects(values)
    return values


def _fields(values: NDArray[Any]) -> NDArray[Any]:
    assert values.dtype.names is not None
    columns = {name: own_array(values[name]) for name in values.dtype.names}
    kinds = [(name, column.dtype, column.shape[values.ndim :]) for name, column in columns.items()]
    found = np.empty(values.shape, dtype=kinds)
    for name, column in columns.items():
        found[name] = column
    return found


def own_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers of any type as int64 if all are whole and below 2**53, else as float64 or complex128."""
    if values.dtype.kind == "c" and np.any(values.imag):
        return values.astype(np.complex128) + 0
    doubles = values.real.astype(np.float64) + 0.0  # no minus zero
    doubles[np.isnan(doubles)] = math.nan  # of which there are many
    return doubles.astype(np.int64) if _all_whole(doubles) else doubles


def _all_whole(doubles: NDArray[np.float64]) -> bool:
    with np.errstate(invalid="ignore"):
        return bool(np.all((np.abs(doubles) <= _WHOLE) & (np.floor(doubles) == doubles)))


def _moments(values: NDArray[Any]) -> NDArray[Any]:
    letter, unit = values.dtype.kind, np.datetime_data(values.dtype)[0]
    if letter == "m" and unit in ("Y", "M"):  # how many days that is, nobody knows
        return values.astype(f"m8[{unit}]")
    for coarse in UNITS[:-1]:
        found = values.astype(f"{letter}8[{coarse}]")
        known = ~np.isnat(values)
        if np.array_equal(np.isnat(found), ~known) and np.array_equal(found[known].astype(values.dtype), values[known]):
            return found
    return values.astype(f"{letter}8[as]")


def _objects(values: NDArray[Any]) -> NDArray[Any]:
    """Texts, bytes or objects, as numbers or texts if all are, else as objects."""
    items = [plain(item) for item in values.ravel().tolist()]
    if values.ndim == 1 and all(isinstance(item, list | tuple | np.ndarray) for item in items):
        with suppress(ValueError):  # rows of different shapes stay apart
            return own_array(np.array([np.array(item, dtype=object) for item in items]))
        return _held([own_array(item) if isinstance(item, np.ndarray) else item for item in items], values.shape)
    if all(isinstance(item, int | float | complex) for item in items):
        return own_numbers(np.array(items).reshape(values.shape))
    for kind in (str, bytes, np.datetime64, np.timedelta64):
        if all(isinstance(item, kind) for item in items):
            found = np.array(items).reshape(values.shape)
            return _moments(found) if found.dtype.kind in "mM" else found
    return _held(items, values.shape)


def _held(items: Sequence[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    found = np.empty(len(items), dtype=object)
    for at, item in enumerate(items):
        found[at] = item
    return found.reshape(shape)


def plain(value: Any) -> Any:
    """A value as plain Python: numbers by value, and texts that are how a number is written."""
    if isinstance(value, bytes):
        try:
            value = value.decode("ascii")
        except UnicodeDecodeError:
            return bytes(value)
    if isinstance(value, str):
        return _read(str(value))
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, numbers.Integral) and not isinstance(value, np.timedelta64):  # which calls itself one
        return _plain_number(_double(int(value)))
    if isinstance(value, numbers.Complex) and not isinstance(value, numbers.Rational):
        number = complex(value)
        return number if number.imag else _plain_number(number.real)
    return value


def _double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _plain_number(value: float) -> int | float:
    return int(value) if abs(value) <= _WHOLE and value == int(value) else value


def _read(text: str) -> Any:
    """A number, if this is just how one is written; else the text."""
    if text in _TRUTH:
        return _TRUTH[text]
    if not text or text[-1] not in "0123456789fnj)":
        return text
    for kind in (float, complex):
        with suppress(ValueError):
            number = kind(text)
            if str(number) == text or (kind is float and _is_integer(text)):
                return plain(number)
    return text


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and (digits == "0") == digits.startswith("0") and text != "-0"


def own_sparse(values: Any) -> Any:
    """The same entries as rows, with types that follow from them."""
    rows = canonical_csr(values)
    indices, indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    return type(rows)((own_numbers(rows.data), indices, indptr), shape=rows.shape)  # the index type follows from these
