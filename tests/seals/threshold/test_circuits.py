"""Circuits without encryption: what their polynomials give, which ring they need, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.polynomial import chebyshev

import hushtune as ht
from hushtune.core.errors import SettingError
from hushtune.seals.forms import Form
from hushtune.seals.threshold.circuits import (
    LARGEST,
    PARAMETERS,
    Circuit,
    circuit,
    inputs,
    levels_of,
    offset_of,
    segments,
)

SMALL, LARGE = (PARAMETERS[ring] for ring in sorted(PARAMETERS))


def evaluated(found: Circuit, form: Form, blocks: list[dict[str, np.ndarray]], largest: int) -> np.ndarray:
    """What the server computes, in floats."""
    made = [inputs(found, form, block, len(blocks), largest)[0] for block in blocks]
    sums = [np.sum([one[at] for one in made], axis=0) for at in range(len(made[0]))]
    assert np.abs(sums[0]).max() <= 1 + 1e-9
    if form.at_least is not None:
        return np.asarray(chebyshev.chebval(sums[0], found.series[0]))
    result = sums[1]
    for one in found.series:
        series = chebyshev.chebval(sums[0], one)
        result = result * series
    if found.newton:
        result = result * (2 - (sums[0] + offset_of(form, largest)) * series)
    return np.asarray(result)


@pytest.mark.parametrize(
    ("clients", "most", "threshold", "parameters"),
    [
        (10, 40, 4, SMALL),
        (10, 20, 2, SMALL),
        (20, 80, 4, LARGE),
        pytest.param(10, 100, 4, LARGE, marks=pytest.mark.long),
        (2, 4, 4, SMALL),
        (3, 3, 1, SMALL),
    ],
)
def test_a_mask_is_exact_on_every_integer(clients: int, most: int, threshold: int, parameters: object) -> None:
    form = Form("counts", at_least=threshold)
    found = circuit(parameters, form, clients, most)  # type: ignore[arg-type]
    assert found is not None
    counts = np.arange(most + 1)
    rest = [{"counts": counts}] + [{"counts": 0 * counts}] * (clients - 1)
    values = evaluated(found, form, rest, most)
    assert np.abs(values[len(counts) :]).max() < 1e-10  # empty cells
    error = np.abs(values[: len(counts)] - (counts >= threshold)).max()
    assert error < 1e-10
    assert error < found.error < 1e-7


@pytest.mark.parametrize(
    ("least", "most", "parameters"),
    [(10, 100, SMALL), (4, 100, SMALL), pytest.param(4, 200, LARGE, marks=pytest.mark.long), (1, 3, SMALL)],
)
def test_quotients_are_right_for_every_count(least: int, most: int, parameters: object) -> None:
    unit = 2**20
    form = Form("sums", over="counts", least=least * unit, step=unit)
    found = circuit(parameters, form, 2, most * unit)  # type: ignore[arg-type]
    assert found is not None
    counts = np.arange(least, most + 1) * unit
    sums = (counts * np.linspace(0, 1, len(counts))).astype(int)
    blocks = [{"counts": counts // 2, "sums": sums // 2}, {"counts": counts - counts // 2, "sums": sums - sums // 2}]
    values = evaluated(found, form, blocks, most * unit)
    assert np.abs(values - sums / counts).max() <= found.error < 5e-7


def test_a_count_that_is_always_the_same_needs_no_division() -> None:
    found = circuit(SMALL, Form("sums", over="counts", least=10), 5, 10)
    assert found is not None
    assert not found.multiplies
    values, levels = inputs(
        found, Form("sums", over="counts", least=10), {"counts": np.array([2]), "sums": np.array([1])}, 5, 10
    )
    assert values[0].tolist() == [0.1 * found.finer]
    assert levels == [SMALL.depth - 1]


def test_a_larger_bound_takes_a_larger_ring_and_then_a_refresh() -> None:
    form = Form("counts", at_least=4)
    assert len(circuit(LARGE, form, 20, 80).series) == 1  # type: ignore[union-attr]
    for parameters in (SMALL, LARGE):
        found = circuit(parameters, Form("counts", at_least=1_500), 50, 3_000)
        assert found is not None
        assert len(segments(found)) > 2
        assert levels_of(found) <= parameters.depth


def test_what_cannot_be_computed_is_refused_with_what_to_do() -> None:
    with pytest.raises(SettingError, match="no sum reaches the threshold: it must be at most 8, but got 9"):
        circuit(SMALL, Form("counts", at_least=9), 2, 8)
    with pytest.raises(SettingError, match="cannot be computed under encryption for 3 clients with sums up to 9000000"):
        ht.Threshold().circuit(Form("sums", over="counts", least=1), 3, 9_000_000, 4)
    with pytest.raises(SettingError, match=r"smudging must reach 60 bits, but .* reaches .* with ring 32768"):
        ht.Threshold(smudging=60).circuit(Form("counts", at_least=4), 10, 40, 49)
    assert circuit(SMALL, None, 3, LARGEST + 1) is None
    many, found = {"counts": np.zeros(9000, dtype=np.int64)}, Circuit(SMALL, 1e-9, "comparison", ((0.0, 1.0),))
    with pytest.raises(SettingError, match="a ciphertext holds 8192 values, but 'counts' has 9000"):
        inputs(found, Form("counts", at_least=1), many, 2, 4)


def test_more_smudging_reaches_more_bits() -> None:
    found = circuit(SMALL, None, 10, 100)
    assert found is not None
    assert found.smudging(0.02, 100, 10) - found.smudging(0.01, 100, 10) == pytest.approx(2)
    quotient = circuit(LARGE, Form("sums", over="counts", least=4), 10, 100)
    assert quotient is not None
    fewer, more = (quotient.smudging(0.01, length, 10) for length in (6, 24))
    assert fewer - more == pytest.approx(2, abs=0.1)  # by their L2 norm


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dropouts": 0.1}, "needs every client: dropouts must be 0, but got 0.1"),
        ({"ring": 2**13}, r"ring must be one of \[16384, 32768\], but got 8192"),
        ({"smudging": -1}, "smudging"),
        ({"precision": 0}, "precision"),
    ],
)
def test_settings_are_checked(given: dict[str, float], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        ht.Threshold(**given)  # type: ignore[arg-type]


def test_one_client_is_refused() -> None:
    with pytest.raises(SettingError, match="at least 2 clients, but got 1"):
        ht.Threshold().check(1)


USUAL: dict[str, Callable[[int], tuple[Form | None, int, int]]] = {
    "a vote's sum, exact (up to n)": lambda n: (None, n, 100),
    "a noisy sum (up to 10^4)": lambda n: (None, 10**4, 100),
    "a sum in fixed point (up to n 2^20)": lambda n: (None, n * 2**20, 100),
    "which cells are dense (counts up to 4 n)": lambda n: (Form("counts", at_least=4), 4 * n, 49),
    "averages of all clients (counts n to 10 n)": lambda n: (Form("sums", over="counts", least=n), 10 * n, 6),
    "averages of clusters (counts 4 to 10 n)": lambda n: (Form("sums", over="counts", least=4), 10 * n, 6),
}
CLIENTS = (5, 10, 20, 50, 100)


def reached(ring: int, clients: int, what: str) -> float | None:
    form, largest, length = USUAL[what](clients)
    seal, found = ht.Threshold(ring=ring), circuit(PARAMETERS[ring], form, clients, largest)
    return None if found is None else seal.bits(found, form, clients, length)


def test_the_page_says_how_many_bits_usual_circuits_reach() -> None:
    page = (Path(__file__).parents[3] / "docs" / "encryption.md").read_text(encoding="utf-8")
    for what in USUAL:
        for ring in sorted(PARAMETERS):
            bits = [reached(ring, clients, what) for clients in CLIENTS]
            shown = " | ".join("-" if one is None or one < 0 else str(int(one)) for one in bits)  # rounded down
            assert f"| {what} | 2^{ring.bit_length() - 1} | {shown} |" in page


def test_a_client_asks_for_what_the_seal_gives_by_default_and_usual_circuits_reach_it() -> None:
    assert ht.Policy().smudging == ht.Threshold().smudging == 20
    for what in USUAL:
        assert (reached(2**15, 10, what) or 0) >= 20
        assert (reached(2**15, 20, what) or 0) >= 20


def test_sums_of_small_integers_are_hidden_better_than_by_their_scale_alone() -> None:
    """Scaled up inside the ciphertext: what remains is what doubles lose, and grows with the integers."""
    small, large = (reached(2**15, 10, what) for what in ("a vote's sum, exact (up to n)", "a noisy sum (up to 10^4)"))
    assert small is not None
    assert large is not None
    assert small > 60 > large > 40  # 42 without
    with pytest.raises(SettingError, match="smudging must reach 20 bits, but the sum reaches -"):
        ht.Threshold().circuit(None, 10, 2**40, 100)
