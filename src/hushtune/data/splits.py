"""Splits of one data set among clients, seeded, for simulations and examples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtune.client.rows import Rows
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError


def iid(labels: NDArray[np.generic], clients: int, seed: int) -> list[NDArray[np.int64]]:
    """Equal shares at random: one array of row numbers per client.

    Args:
        labels: one per row, shape (rows,).
        clients: how many, from 1.
        seed: 0 or more; the same seed gives the same split.
    """
    _check(len(labels), clients, 1)
    return np.array_split(np.random.default_rng(seed).permutation(len(labels)), clients)


def dirichlet(
    labels: NDArray[np.generic], clients: int, alpha: float, seed: int, smallest: int = 5
) -> list[NDArray[np.int64]]:
    """Label skew: each label's rows go to the clients in proportions drawn from Dirichlet(alpha).

    A client that gets fewer than `smallest` rows takes rows from the largest ones.

    Args:
        labels: one per row, shape (rows,).
        clients: how many, from 1.
        alpha: above 0; the smaller, the more clients differ.
        seed: 0 or more; the same seed gives the same split.
        smallest: rows that every client has at the least.
    """
    number("alpha", alpha, 0, 1e6, "(]")
    _check(len(labels), clients, smallest)
    rng = np.random.default_rng(seed)
    shares: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        ends = np.round(np.cumsum(rng.dirichlet(np.full(clients, alpha))) * len(rows)).astype(int)
        for share, part in zip(shares, np.split(rows, ends[:-1]), strict=True):
            share.extend(part.tolist())
    for share in shares:
        while len(share) < smallest:
            share.append(max(shares, key=len).pop())
    return [rng.permutation(np.array(share, dtype=np.int64)) for share in shares]


def quantity(
    labels: NDArray[np.generic], clients: int, alpha: float, seed: int, smallest: int = 5
) -> list[NDArray[np.int64]]:
    """Quantity skew: all labels alike, but sizes are drawn from Dirichlet(alpha), `smallest` at the least.

    Args:
        labels: one per row, shape (rows,).
        clients: how many, from 1.
        alpha: above 0; the smaller, the more clients differ.
        seed: 0 or more; the same seed gives the same split.
        smallest: rows that every client has at the least.
    """
    number("alpha", alpha, 0, 1e6, "(]")
    _check(len(labels), clients, smallest)
    rng = np.random.default_rng(seed)
    spare = len(labels) - clients * smallest
    ends = np.round(np.cumsum(rng.dirichlet(np.full(clients, alpha))) * spare).astype(int)
    sizes = smallest + np.diff(ends, prepend=0)
    return np.split(rng.permutation(len(labels)), np.cumsum(sizes)[:-1])


def by_column(values: NDArray[np.generic]) -> list[NDArray[np.int64]]:
    """One client for each different value of a column (a field, a writer, a subject), in the values' order.

    Args:
        values: of the column, one per row, shape (rows,).
    """
    return [np.flatnonzero(values == value) for value in np.unique(values)]


def imb1(labels: NDArray[np.generic], seed: int) -> list[NDArray[np.int64]]:
    """FLoRA's mild skew: four clients; a row of an even label goes four times as likely to one of the first two.

    Args:
        labels: one per row, shape (rows,).
        seed: 0 or more; the same seed gives the same split.
    """
    rng = np.random.default_rng(seed)
    even = np.asarray(labels).astype(int) % 2 == 0
    first = rng.random(len(labels)) < np.where(even, 0.8, 0.2)
    client = np.where(first, 0, 2) + rng.integers(0, 2, len(labels))
    return [rng.permutation(np.flatnonzero(client == number)) for number in range(4)]


def imb2(labels: NDArray[np.generic], seed: int) -> list[NDArray[np.int64]]:
    """FLoRA's strong skew: four clients; the first three have two labels each for themselves, the last all others.

    Args:
        labels: one per row, shape (rows,).
        seed: 0 or more; the same seed gives the same split.
    """
    rng = np.random.default_rng(seed)
    place = np.searchsorted(np.unique(labels), labels)
    client = np.minimum(place // 2, 3)
    return [rng.permutation(np.flatnonzero(client == number)) for number in range(4)]


def _check(rows: int, clients: int, smallest: int) -> None:
    if integer("clients", clients, 1) * smallest > rows:
        raise SettingError(
            f"`1 <= clients * {smallest} <= rows` must hold for a split, but got clients={clients}, rows={rows}"
        )


def split(how: str, labels: NDArray[np.generic], clients: int, seed: int) -> list[NDArray[np.int64]]:
    """Which rows each client gets, by a text: see `shares`."""
    kind = str(how).partition(":")[0]
    integer("seed", seed, 0)
    if how == "iid":
        return iid(labels, clients, seed)
    if kind == "noise":
        _amount(how)
        return iid(labels, clients, seed)
    if kind in _SKEWED:
        return _SKEWED[kind](labels, clients, _amount(how), seed)
    if str(how) in _FLORA:
        if clients != 4:
            raise SettingError(f"split '{how}' is for 4 clients, but got clients={clients}")
        return _FLORA[how](labels, seed)
    raise SettingError(
        "split must be 'iid', 'dirichlet:ALPHA', 'quantity:ALPHA', 'noise:DEVIATION', 'imb1' or 'imb2', "
        f"but got {how!r}"
    )


def listed(text: str) -> list[str]:
    """Several splits in one text: "iid,dirichlet:30,5" is iid, dirichlet:30 and dirichlet:5."""
    found: list[str] = []
    for part in text.split(","):
        kind = found[-1].partition(":")[0] if found and ":" in found[-1] else ""
        found.append(f"{kind}:{part}" if kind and part[:1].isdigit() else part)
    return found


def shares(how: str, rows: Rows, clients: int, seed: int) -> list[Rows]:
    """Each client's rows, by the text of a split.

    "iid"; "dirichlet:ALPHA" (label skew); "quantity:ALPHA" (sizes differ); "noise:DEVIATION" (feature skew: normal
    noise on the features, growing from client to client up to that deviation); "imb1", "imb2" (FLoRA's).

    Args:
        how: "iid", "dirichlet:0.5", "quantity:1", "noise:0.1", "imb1" or "imb2".
        rows: to be split.
        clients: how many, from 1. 4 for "imb1" and "imb2".
        seed: 0 or more; the same seed gives the same split.
    """
    found = [rows.take(part) for part in split(how, rows.y, clients, seed)]
    if not str(how).startswith("noise:"):
        return found
    most, rng = _amount(how), np.random.default_rng([seed, 1])
    return [_noisy(share, most * (number + 1) / clients, rng) for number, share in enumerate(found)]


def _noisy(rows: Rows, deviation: float, rng: np.random.Generator) -> Rows:
    x = np.asarray(rows.X)
    noise = rng.normal(0, deviation, x.shape).astype(x.dtype if x.dtype.kind == "f" else np.float64)
    return Rows(x + noise, rows.y, rows.subjects)


def _amount(how: str) -> float:
    kind, _, argument = how.partition(":")
    try:
        amount = float(argument)
    except ValueError:
        raise SettingError(f"split '{kind}:NUMBER' needs a number, but got '{how}'") from None
    return number("the number of a split", amount, 0, 1e6, "(]")


_SKEWED = {"dirichlet": dirichlet, "quantity": quantity}
_FLORA = {"imb1": imb1, "imb2": imb2}
