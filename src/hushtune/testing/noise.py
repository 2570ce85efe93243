"""What everybody's noise must be together: as large as the cost was computed from, and fresh in every sum."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ndtri

from hushtune.client.search.base import Search
from hushtune.client.simulation import Simulation
from hushtune.core.arrays import IntArray
from hushtune.core.errors import AbortedError
from hushtune.core.observer import Silent
from hushtune.federation.local import LocalFederation
from hushtune.privacy.accounting import Unit
from hushtune.privacy.events.sums import Event, GaussianVector, SkellamVector
from hushtune.privacy.guarantee import Privacy
from hushtune.run.result import Result
from hushtune.run.tuning import tune
from hushtune.seals.base import Seal, floor_share
from hushtune.testing.marks import check_tests
from hushtune.testing.numbers import CANDIDATES, NORM, Totals, holder
from hushtune.testing.values import expect

_LENGTH = 8192  # so many draws tell variances apart that differ by a tenth
_SUMS = 2
_BEYOND = 100 * NORM  # entries of a vector that breaks its bound
_FALSE_ALARMS = 1e-8  # of each of the six comparisons


def check_noise(seal: Seal, unit: Unit = "client", clients: int = 10, seed: int = 7) -> None:
    """Measures the noise that clients, or a curator, add under a seal; an AssertionError says what broke.

    In a marked simulation, two sums of 8,192 integers are opened under epsilon. A third of the clients fail, and the
    last one's answer breaks its bound: none of them may move the sums, but their noise shares must be in them like
    everybody else's. Mean and variance of what was added to the exact sums of the others are compared with what the
    cost was computed from, and those of the two sums' difference with twice that: no noise may be used twice. With
    correct noise fewer than one seed in ten million fails. A seal that answers questions about hidden sums is asked by
    each of its mechanisms, and the answers must come as often as their cost says.

    Args:
        seal: an instance.
        unit: "client", or "record": each client then has two voters.
        clients: how many, at least 2.
        seed: of noise and vectors.
    """
    expect(clients >= 2, f"noise is measured with at least 2 clients, but got {clients}")
    vectors = _vectors(clients, 2 if unit == "record" else 1, seed)
    failing = range(max(1, clients // 3))
    parties = [holder(f"client-{at}", own, at in failing) for at, own in enumerate(vectors)]
    with TemporaryDirectory(prefix="hushtune-") as place:
        wire = LocalFederation(parties, Path(place), seed=seed, jobs=1)
        method = Totals(_SUMS, _LENGTH, voters=vectors.shape[1])
        options: dict[str, Any] = {"privacy": Privacy(4.0, unit=unit), "seal": seal, "search": Search()}
        try:
            result = tune(wire, CANDIDATES, method=method, **options, simulation=Simulation(seed), observer=Silent())
        except AbortedError as error:
            raise AssertionError(
                f"sums and their noise must be what clients can send, but the run says: {error}"
            ) from None
    exact = vectors[len(failing) : -1].sum(axis=(0, 1))
    opened = np.array([one.blocks["numbers"] for one in result.opened])
    _compare(opened - exact, _expected(result, seal, clients))
    if seal.mechanisms and (unit == "client" or seal.noise_at == "curator"):  # nodes draw the same for both
        check_tests(seal, unit, clients, seed)


@lru_cache
def measured(seal: Seal, unit: Unit, clients: int) -> None:
    """As `check_noise`, once in a process for all methods: which one asks makes no difference to the noise."""
    check_noise(seal, unit, clients)


def _vectors(clients: int, voters: int, seed: int) -> IntArray:
    """Random vectors within the bound, and the last client's far beyond, shape (clients, voters, sums, length)."""
    directions = np.random.default_rng(seed).normal(size=(clients, voters, _SUMS, _LENGTH))
    scaled = NORM * 0.99 * directions / np.linalg.norm(directions, axis=3, keepdims=True)
    vectors: IntArray = np.trunc(scaled).astype(np.int64)
    vectors[-1] = _BEYOND
    return vectors


def _expected(result: Result, seal: Seal, clients: int) -> float:
    """The variance of one sum's noise: what its event has, and what the clients beyond those counted on add to it."""
    variances = {_variance(event) for event in result.events}
    answers = {opened.answered for opened in result.opened}
    expect(len(variances) == 1, f"sums that are bounded alike must get the same noise, but got {sorted(variances)}")
    expect(answers == {clients}, f"clients that fail must be in the sum like others, but {answers} of {clients} are")
    carried = 1.0
    if seal.noise_at == "parties":
        needed, corrupt = clients - floor_share(seal.dropouts, clients), floor_share(seal.corrupt, clients)
        carried = clients / (needed - corrupt if corrupt else max(needed, 2) - 1)  # who reads knows its own share
    elif seal.noise_at == "nodes":
        nodes = seal.noise(1.0).nodes
        carried = nodes / (nodes - (nodes - 1) // 2)  # all of them add noise, and a minority may know its own
    wanted = variances.pop() * carried
    for opened in result.opened:
        close = abs(opened.noise_variance / wanted - 1) < 1e-9
        expect(close, f"an opening must state its noise's variance {wanted:.6g}, but says {opened.noise_variance:.6g}")
    return wanted


def _variance(event: Event) -> float:
    match event:
        case SkellamVector():
            return event.variance
        case GaussianVector():
            return event.deviation**2
        case _:
            raise AssertionError(f"a vector bounded by its norm must cost an event for such, but got '{event.name}'")


def _compare(noise: IntArray, variance: float) -> None:
    """The two sums' noise, and their difference, with what they must be."""
    _check_moments(noise[0], variance, "the first sum's noise")
    _check_moments(noise[1], variance, "the second sum's noise")
    _check_moments(noise[1] - noise[0], 2 * variance, "the difference of two sums' noise")


def _check_moments(noise: IntArray, variance: float, what: str) -> None:
    """Mean and mean square, as of normal noise: at such variances, Skellam noise differs by nothing that shows."""
    tail = _FALSE_ALARMS / 2
    half = len(noise) / 2
    low, high = (float(gammaincinv(half, share)) / half for share in (tail, 1 - tail))
    square = float(np.mean(noise.astype(np.float64) ** 2)) / variance
    expect(
        low <= square <= high,
        f"{what} must have a variance of {variance:.6g}, but {square:.4g} of that was measured, "
        f"which is not between {low:.3g} and {high:.3g}",
    )
    reach = -float(ndtri(tail)) * (variance / len(noise)) ** 0.5
    mean = float(noise.mean())
    expect(
        abs(mean) <= reach, f"{what} must have a mean of 0, but {mean:.4g} was measured, which is beyond {reach:.3g}"
    )
