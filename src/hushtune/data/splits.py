"""Splits of one data set among clients, seeded, for simulations and examples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushtune.checks import integer, number
from hushtune.errors import SettingError


def iid(labels: NDArray[np.generic], clients: int, seed: int) -> list[NDArray[np.int64]]:
    """Equal shares at random: one array of row numbers per client."""
    _check(len(labels), clients, 1)
    return np.array_split(np.random.default_rng(seed).permutation(len(labels)), clients)


def dirichlet(
    labels: NDArray[np.generic], clients: int, alpha: float, seed: int, smallest: int = 5
) -> list[NDArray[np.int64]]:
    """Label skew: each label's rows go to the clients in proportions drawn from Dirichlet(alpha).

    A client that gets fewer than `smallest` rows takes rows from the largest ones.
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


def _check(rows: int, clients: int, smallest: int) -> None:
    if integer("clients", clients, 1) * smallest > rows:
        raise SettingError(
            f"`1 <= clients * {smallest} <= rows` must hold for a split, but got clients={clients}, rows={rows}"
        )


def split(how: str, labels: NDArray[np.generic], clients: int, seed: int) -> list[NDArray[np.int64]]:
    """A split by its text: "iid", or "dirichlet:ALPHA"."""
    kind, _, argument = str(how).partition(":")
    if kind == "iid" and not argument:
        return iid(labels, clients, seed)
    if kind == "dirichlet":
        try:
            alpha = float(argument)
        except ValueError:
            raise SettingError(f"split 'dirichlet:ALPHA' needs a number, but got '{how}'") from None
        return dirichlet(labels, clients, alpha, seed)
    raise SettingError(f"split must be 'iid' or 'dirichlet:ALPHA', but got '{how}'")
