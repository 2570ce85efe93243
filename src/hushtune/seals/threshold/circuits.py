"""What is computed under encryption: polynomials in place of comparison and division, their errors, and the smudging.

Both ends derive a circuit from public facts alone: the server its coefficients, a client what it encrypts and how much
noise it adds to its partial decryption.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.polynomial import chebyshev

from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.errors import SettingError
from hushtune.seals.forms import Form

MOST_OPENINGS = 4  # ciphertexts that are decrypted under one set of keys
LARGEST = 2**40  # the largest integer in a sum that is opened exactly
_DEGREES = {3: 5, 4: 13, 5: 27, 6: 59, 7: 119, 8: 247, 9: 495}  # the highest degree of a series, by levels it takes
_SURE = 6.5  # standard deviations, for errors that are not bounded
_ERROR_DEVIATION = 3.19  # of the noise in fresh keys and ciphertexts, as the standard parameters have it
_FINE_ENOUGH = 2.0**-28  # an error below this is not worth a longer polynomial
_LARGEST_SERIES = 25.0  # sum of a series' absolute coefficients above which its evaluation loses precision
_FLAT = 1e-8  # what a slope of one counts as beside an error of one, when a comparison is fitted
_ROUNDED = 1 / 16  # deviation of the noise in integers, an eighth of what spoils one: 1 in 10^15 is off
_FINER = 2.0**12  # by which sums are scaled up, in moduli that have room for it: then their encryption errs by less
_ENCODED = 2.0**-51  # deviation of what doubles lose when clients' values are encoded, relative to the largest sum
_WORTH_A_TRIP = 1e-6  # an error of a comparison above which the parties are asked for a refresh
_COARSEST = 1e-4  # an error with which nothing is computed
_MOST_FITTED = 2_000  # counts for which a reciprocal is fitted one by one
_STEP = 10  # degrees that the products of Newton's step count for
_COMPOSED = 3  # levels of one polynomial of a composition
_MOST_COMPOSED = 40  # of them
_MOST_COMPARED = 1_000  # integers on which one polynomial is fitted
_AWAY = tuple((chebyshev.poly2cheb([0, 3334, 0, -6108, 0, 3796]) / 1024).tolist())  # Cheon's g2
_TOWARDS = tuple((chebyshev.poly2cheb([0, 15, 0, -10, 0, 3]) / 8).tolist())  # and f2
_NEAR_ONE = 0.75  # from where on the second one is faster
_LEFT = 2  # levels that the distributed bootstrapping needs


@dataclass(frozen=True)
class Parameters:
    """CKKS with 128 bits of security (HEStd, classical, ternary secrets; OpenFHE checks it).

    Args:
        ring: the ring's dimension.
        depth: how many multiplications can follow each other.
        scale: bits of the scale.
        first: bits of the last modulus that is left; an opened value is below 2^(first - scale - 1).
        digits: of the key switching.
    """

    ring: int
    depth: int
    scale: int
    first: int
    digits: int

    @property
    def slots(self) -> int:
        """How many values a ciphertext holds."""
        return self.ring // 2

    def fresh(self, clients: int) -> float:
        """Deviation of the error in a slot of the sum of so many fresh ciphertexts under their joint key."""
        coefficient = _ERROR_DEVIATION * math.sqrt(clients * (1 + 2 * self.ring / 3 * (clients + 1)))
        return coefficient * math.sqrt(self.ring / 2) * 2.0**-self.scale

    @property
    def drift(self) -> float:
        """What one degree of a series loses because moduli are not quite the scale: primes of the form 2 k ring + 1.

        Some such numbers lie between two primes; that the factor is large enough is measured in tests/openfhe.
        """
        return 6 * 2 * self.ring * self.depth * 2.0**-self.scale


PARAMETERS: Mapping[int, Parameters] = {
    2**14: Parameters(2**14, 6, 53, 55, 7),
    2**15: Parameters(2**15, 9, 57, 60, 3),
}


@dataclass(frozen=True)
class Circuit:
    """One form of a sum, with one ring's parameters.

    Args:
        parameters: of the ring.
        error: a bound on the error of an opened value before smudging.
        kind: what is computed.
        series: Chebyshev coefficients: of a comparison's polynomials, one after the other, with refreshes between them
            if there are several; or of a division's one or two factors.
        newton: whether a division's one series is improved by a step of Newton's method, which squares its error.
        encoded: deviation of what encoding loses in a slot, if that counts.
    """

    parameters: Parameters
    error: float
    kind: Literal["sum", "comparison", "division"] = "sum"
    series: tuple[tuple[float, ...], ...] = ()
    newton: bool = False
    encoded: float = 0.0

    @property
    def finer(self) -> float:
        """By how much everything is larger inside ciphertexts than what it stands for."""
        return 1.0 if self.multiplies else _FINER

    @property
    def multiplies(self) -> bool:
        """Whether relinearisation keys are needed."""
        return bool(self.series)

    def smudging(self, deviation: float, length: int, clients: int) -> float:
        """The bits lambda that a party's noise of such a deviation reaches (Li, Micciancio, Schultz, Sorrell 2022).

        The error is that of the whole ciphertext, an L2 norm: of what is opened, and of the slots that are not used. In
        a comparison these hold zeros that go through the same polynomials; otherwise they have only noise.

        Args:
            deviation: of the noise in each slot's real and imaginary part.
            length: how many values are opened.
            clients: how many there are.
        """
        slots, rest = self.parameters.slots, 2 * self.parameters.fresh(clients) / self.finer + self.encoded
        opened = {"sum": 0, "comparison": slots, "division": min(length, slots)}[self.kind]
        error = math.sqrt(opened * self.error**2 + slots * rest**2)
        return 2 * math.log2(deviation / (math.sqrt(12 * MOST_OPENINGS) * error))


def deviation_of(form: Form | None, clients: int, precision: float) -> float:
    """Each party's smudging: as much as leaves integers exact, and quotients with the precision asked for."""
    total = precision if form is not None and form.over is not None else _ROUNDED
    return total / math.sqrt(clients)


@lru_cache(maxsize=256)
def circuit(parameters: Parameters, form: Form | None, clients: int, largest: int) -> Circuit | None:
    """The circuit for a form; None if these parameters cannot do it.

    Args:
        parameters: of the ring.
        form: what is opened; None: the sum.
        clients: how many encrypt.
        largest: the largest absolute value of an entry of the sum.
    """
    if form is None or (form.at_least is None and form.over is None):
        return _sum(parameters, clients, largest) if largest <= LARGEST else None
    if form.at_least is not None:
        return _comparison(parameters, clients, largest, form.at_least)
    assert form.least is not None
    if form.least >= largest:
        return _sum(parameters, clients, 1)
    return _division(parameters, clients, form.least // form.step, largest // form.step)


def _sum(parameters: Parameters, clients: int, largest: int) -> Circuit:
    """Nothing is computed but the sum. Its error is that of encryption, and of encoding as doubles."""
    encoded = _ENCODED * largest
    return Circuit(parameters, _SURE * (parameters.fresh(clients) / _FINER + encoded), encoded=encoded)


# ---- comparison --------------------------------------------------------------------------------------


def _comparison(parameters: Parameters, clients: int, most: int, threshold: int) -> Circuit | None:
    """1 for integers from the threshold on, 0 below: by one polynomial, else by small ones with refreshes between."""
    if threshold > most:
        raise SettingError(f"no sum reaches the threshold: it must be at most {most}, but got {threshold}")
    best: Circuit | None = None
    for levels, degree in _DEGREES.items():
        if levels > parameters.depth or most > _MOST_COMPARED:
            break
        found = _step(parameters, clients, most, threshold, degree)
        if best is None or found.error < best.error:
            best = found
        if best.error < _FINE_ENOUGH:
            return best
    if best is not None and best.error < _WORTH_A_TRIP:
        return best
    return _composed(parameters, most, threshold)


def _composed(parameters: Parameters, most: int, threshold: int) -> Circuit | None:
    """Compositions of two polynomials of degree 5 (Cheon et al. 2020): one moves values away from 0, one towards 1.

    The last one is moved from -1 and 1 to 0 and 1. The parties refresh the ciphertext between them.
    """
    middle, wide = _around(threshold, most)
    values = (np.arange(most + 1) - middle) / wide
    series: list[tuple[float, ...]] = []
    while (nearest := float(np.abs(values).min())) < 1 - 2.0**-45 and len(series) < _MOST_COMPOSED:
        one = _AWAY if nearest < _NEAR_ONE else _TOWARDS
        values = chebyshev.chebval(values, one)
        series.append(one)
    series[-1] = tuple((np.eye(6)[0] / 2 + np.array(series[-1]) / 2).tolist())
    error = 1 - nearest + _STEP * parameters.drift + _SURE * parameters.fresh(1)
    return Circuit(parameters, error, "comparison", tuple(series)) if len(series) < _MOST_COMPOSED else None


def _around(threshold: int, most: int) -> tuple[float, float]:
    """Between which two integers a comparison decides, and how far it is from there to the farther end."""
    return threshold - 0.5, max(threshold, most - threshold + 1) - 0.5


def _step(parameters: Parameters, clients: int, most: int, threshold: int, degree: int) -> Circuit:
    """A series of the degree that is right on the integers, and flat there, so that it does not blow up noise.

    Least squares of values and derivatives. Equispaced interpolation alone would have huge slopes at the ends.
    """
    values = np.arange(most + 1)
    points, wanted = 2 * values / most - 1, (values >= threshold).astype(np.float64)
    basis = chebyshev.chebvander(points, degree)
    slopes = _slopes(points, degree)
    noise = _SURE * parameters.fresh(clients)
    best = Circuit(parameters, math.inf, "comparison")
    for small in (1e-10, 1e-9, 1e-8, 1e-7, 1e-6):
        found = _solved(np.vstack([basis, _FLAT * slopes]), np.concatenate([wanted, 0 * wanted]), small)
        error = float(np.abs(basis @ found - wanted).max()) + noise * float(np.abs(slopes @ found).max())
        error += _evaluated(parameters, found)
        if float(np.abs(found).sum()) <= _LARGEST_SERIES and error < best.error:
            best = Circuit(parameters, error, "comparison", (tuple(found.tolist()),))
    return best


def _solved(system: FloatArray, target: FloatArray, small: float) -> FloatArray:
    """Least squares, where large coefficients count as errors too."""
    from scipy.linalg import lstsq

    width = system.shape[1]
    rows = np.vstack([system, small * np.eye(width)])
    found = lstsq(rows, np.concatenate([target, np.zeros(width)]), cond=1e-16, lapack_driver="gelsy")[0]
    return np.asarray(found)


def _slopes(points: FloatArray, degree: int) -> FloatArray:
    """Derivatives of the Chebyshev polynomials up to the degree, shape (points, degree + 1): T_k' = k U_(k - 1)."""
    from scipy.special import eval_chebyu

    orders = np.arange(degree + 1)
    return np.asarray(orders * eval_chebyu(orders[None, :] - 1, points[:, None]))


def _evaluated(parameters: Parameters, series: FloatArray) -> float:
    """What evaluating a series under encryption adds, whatever its coefficients: those of its parts are larger."""
    return len(series) * parameters.drift + float(np.abs(series).sum()) * parameters.fresh(1)


# ---- division ----------------------------------------------------------------------------------------


def _division(parameters: Parameters, clients: int, least: int, largest: int) -> Circuit | None:
    """Quotients by counts between two integers: by one series, two that are multiplied, or one and a step of Newton's.

    s (u(c) v(c)) with u, v of n and m levels takes max(n + 1, m) + 1 of them: a product of degree 40 where one series
    would have 27. s r (2 - c r) takes 2 more than r, and squares its error.
    """
    best: Circuit | None = None
    for levels, degree in _DEGREES.items():
        ways: list[tuple[int, tuple[int, ...], bool]] = [(levels + 1, (degree,), False), (levels + 2, (degree,), True)]
        if levels - 1 in _DEGREES:
            ways.insert(1, (levels + 1, (_DEGREES[levels - 1], degree), False))
        for needed, degrees, newton in ways:
            if needed > parameters.depth:
                continue
            found = _reciprocal(parameters, clients, least, largest, degrees, newton)
            if best is None or found.error < best.error / (
                4 if newton or len(degrees) > 1 else 1
            ):  # worth its products
                best = found
        if best is not None and best.error < _FINE_ENOUGH:
            return best
    return best if best is not None and best.error < _COARSEST else None


def _reciprocal(
    parameters: Parameters, clients: int, least: int, largest: int, degrees: tuple[int, ...], newton: bool
) -> Circuit:
    """Series whose product is near least/c on the counts; relative errors matter, because a quotient is at most 1."""
    counts = np.arange(least, largest + 1, dtype=np.float64)
    if len(counts) > _MOST_FITTED:  # then between them as well
        counts = (largest + least) / 2 - (largest - least) / 2 * np.cos(np.linspace(0, np.pi, _MOST_FITTED))
    nodes = (2 * counts - (largest + least)) / (largest - least)
    bases = [chebyshev.chebvander(nodes, degree) for degree in degrees]
    basis = chebyshev.chebvander(nodes, sum(degrees) - len(degrees) + 1)  # roots come in pairs, degrees are odd
    whole = _solved(basis * (counts / least)[:, None], np.ones(len(nodes)), 1e-14)
    series = [whole] if len(degrees) == 1 else _factors(whole, degrees[0])
    product = np.prod([b @ s for b, s in zip(bases, series, strict=True)], axis=0)
    slope = sum(
        np.prod(
            [_slopes(nodes, degrees[n]) @ series[n] if n == at else bases[n] @ series[n] for n in range(len(series))],
            axis=0,
        )
        for at in range(len(series))
    )
    amplified, fit = largest / least, np.abs(product * counts / least - 1).max()
    noise = _SURE * parameters.fresh(clients) * np.abs(slope * counts / least).max()
    evaluated = sum(_evaluated(parameters, one) for one in series) * amplified
    rest = noise + _SURE * parameters.fresh(clients)
    if newton:  # 1/(x + offset) takes the place of least/c, so that the step needs no product with a constant
        series = [series[0] * (largest - least) / (2 * least)]
        error = float((fit + evaluated) ** 2 + rest + _STEP * parameters.drift)
    else:
        error = float(fit + evaluated + rest)
    return Circuit(parameters, error, "division", tuple(tuple(one.tolist()) for one in series), newton=newton)


def _factors(whole: FloatArray, degree: int) -> list[FloatArray]:
    """Two series whose product is the given one, the first of at most the degree: every few of its roots, in order of
    their angle, so that both factors are as smooth as the whole.
    """
    roots = chebyshev.chebroots(whole)
    upper = roots[roots.imag > 1e-9]
    upper = upper[np.argsort(np.angle(upper))]
    count = min(degree // 2, len(upper))
    taken = np.zeros(len(upper), dtype=bool)
    taken[np.linspace(0, len(upper) - 1, count).round().astype(int)] = True
    first = np.concatenate([upper[taken], upper[taken].conj()])
    nodes = np.cos(np.pi * (np.arange(len(whole)) + 0.5) / len(whole))
    values = np.prod(nodes[:, None] - first[None, :], axis=1).real
    values /= np.exp(np.log(np.abs(values)).mean())
    rest = chebyshev.chebval(nodes, whole) / values
    size = np.exp(np.log(np.abs(rest)).mean() / 2)
    lengths = degree, len(whole) - len(first) - 1
    return [chebyshev.chebfit(nodes, part, at) for part, at in zip((values * size, rest / size), lengths, strict=True)]


# ---- what a client encrypts --------------------------------------------------------------------------


def inputs(
    circuit: Circuit, form: Form | None, blocks: Mapping[str, IntArray], clients: int, largest: int
) -> tuple[list[FloatArray], list[int]]:
    """A client's numbers for its ciphertexts, and their levels: scaled so that none is lost on it later."""
    depth, slots = circuit.parameters.depth, circuit.parameters.slots
    if form is None:
        vector = np.concatenate(list(blocks.values())) * circuit.finer
        pieces = [vector[at : at + slots] for at in range(0, len(vector), slots)]
        return pieces, [depth - 1] * len(pieces)
    values = blocks[form.block].astype(np.float64)
    if len(values) > slots:
        raise SettingError(f"a ciphertext holds {slots} values, but '{form.block}' has {len(values)}")
    if form.at_least is not None:
        middle, wide = (largest / 2, largest / 2) if len(circuit.series) == 1 else _around(form.at_least, largest)
        padded = np.pad(values, (0, slots - len(values)))  # an empty slot would lie where a composition decides
        return [(padded - middle / clients) / wide], [depth - levels_of(circuit)]
    if not circuit.series:  # the block itself, or divided by counts that are always the same, and public
        return [values * circuit.finer / (1 if form.over is None else largest)], [depth - 1]
    assert form.least is not None
    assert form.over is not None
    counts = np.tile(blocks[form.over], len(values) // len(blocks[form.over])).astype(np.float64)
    low, high = form.least, largest
    scaled = 2 * counts / (high - low) - offset_of(form, largest) / clients
    if circuit.newton:
        return [scaled, 2 * values / (high - low)], [depth - levels_of(circuit), depth - 2]
    return [scaled, values / low], [depth - levels_of(circuit), depth - len(circuit.series)]


def offset_of(form: Form, largest: int) -> float:
    """What must be added to a count as it is encrypted, to be proportional to the count."""
    assert form.least is not None
    return (largest + form.least) / (largest - form.least)


def segments(circuit: Circuit) -> list[tuple[tuple[float, ...], ...]]:
    """A comparison's series between refreshes: as many as there are levels for, with some left for the next refresh."""
    each, found = max(1, (circuit.parameters.depth - _LEFT) // _COMPOSED), []
    for at in range(0, len(circuit.series), each):
        found.append(circuit.series[at : at + each])
    return found


def refreshes(circuit: Circuit) -> int:
    """How many distributed bootstrappings the circuit has."""
    return len(segments(circuit)) - 1 if circuit.kind == "comparison" else 0


def levels_of(circuit: Circuit) -> int:
    """How many levels the first ciphertext needs: for its series and products, or up to its first refresh."""
    taken = [next(levels for levels, most in _DEGREES.items() if len(one) - 1 <= most) for one in circuit.series]
    if circuit.kind == "division":
        return max(levels + len(taken) - at for at, levels in enumerate(taken)) + circuit.newton
    first = segments(circuit)[0]
    return sum(taken[: len(first)]) + (_LEFT if len(first) < len(taken) else 0)
