from __future__ import annotations

import operator
import random
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtune.core.errors import WireError
from hushtune.seals.quorum import field as fields
from hushtune.seals.quorum.field import LARGE, SMALL, Field, integers, stream

FIELDS = pytest.mark.parametrize("field", [SMALL, LARGE], ids=["small", "large"])
KEY = b"k" * 32


def edges(field: Field) -> list[int]:
    """Around both ends, and around every power of two at which numbers are split."""
    found = {0, 1, 2, 3, field.prime // 2, field.prime // 2 + 1, field.prime - 2, field.prime - 1}
    for bits in (29, 30, 31, 32, 59, 60, 61, 62, 63, 64, 128, 254, 255):
        found |= {2**bits - 2, 2**bits - 1, 2**bits, 2**bits + 1}
    return sorted(value for value in found if value < field.prime)


def ints(values: Any) -> list[int]:
    return [int(value) for value in np.ravel(values)]


@FIELDS
def test_the_modulus_is_prime(field: Field) -> None:
    """Miller-Rabin with 40 bases: a composite passes with probability below 2^-80."""
    odd, twos = field.prime - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in random.Random(1).sample(range(2, 10**9), 40):
        x = pow(base, odd, field.prime)
        assert x in (1, field.prime - 1) or any((x := x * x % field.prime) == field.prime - 1 for _ in range(twos - 1))


@FIELDS
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_all_pairs_of_edges(field: Field, name: str) -> None:
    exact: Callable[[int, int], int] = getattr(operator, name)
    pairs = list(product(edges(field), repeat=2))
    one, other = (field.elements([pair[at] for pair in pairs]) for at in (0, 1))
    assert ints(getattr(field, name)(one, other)) == [exact(a, b) % field.prime for a, b in pairs]


@FIELDS
def test_negatives_and_inverses_of_edges(field: Field) -> None:
    values = edges(field)
    assert ints(field.neg(field.elements(values))) == [-value % field.prime for value in values]
    assert ints(Field.neg(field, field.elements(values))) == [-value % field.prime for value in values]
    for value in values[1:]:
        assert value * field.inverse(value) % field.prime == 1


@pytest.mark.parametrize("field", [SMALL, LARGE], ids=["small", "large"])
@given(st.lists(st.tuples(st.integers(-(2**300), 2**300), st.integers(-(2**300), 2**300)), min_size=1, max_size=20))
def test_random_integers_of_any_sign(field: Field, pairs: list[tuple[int, int]]) -> None:
    a, b = (field.elements([pair[at] for pair in pairs]) for at in (0, 1))
    assert ints(a) == [pair[0] % field.prime for pair in pairs]
    assert ints(field.add(a, b)) == [(x + y) % field.prime for x, y in pairs]
    assert ints(field.sub(a, b)) == [(x - y) % field.prime for x, y in pairs]
    assert ints(field.mul(a, b)) == [x * y % field.prime for x, y in pairs]
    assert ints(field.total(a)) == [sum(x for x, _ in pairs) % field.prime]


def test_a_hundred_thousand_products_of_the_small_field() -> None:
    a, b = SMALL.uniform(KEY, 100_000), SMALL.uniform(b"l" * 32, 100_000)
    exact = a.astype(object) * b.astype(object) % SMALL.prime
    assert np.array_equal(SMALL.mul(a, b).astype(object), exact)


@FIELDS
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 50_000])
def test_the_total_of_many_of_the_largest(field: Field, count: int) -> None:
    values = np.repeat(field.elements([field.prime - 1]), count)
    assert ints(field.total(values)) == [-count % field.prime]
    both = np.stack([values, field.elements(np.ones(count, dtype=object))])
    assert ints(field.total(both, axis=1)) == [-count % field.prime, count]
    assert ints(field.total(both)) == [0] * count


@FIELDS
def test_a_single_number_is_an_array_too_and_nothing_warns(field: Field) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = field.elements(1), field.elements(2)
        assert ints(field.add(one, other)) == [3]
        assert ints(field.sub(one, other)) == [field.prime - 1]
        assert ints(field.mul(one, other)) == [2]
        found = field.total(field.elements([1, 2, -4]))
    assert isinstance(found, np.ndarray)
    assert (found.shape, found.dtype) == ((), one.dtype)
    assert ints(found) == [field.prime - 1]


@FIELDS
def test_shapes_are_kept(field: Field) -> None:
    values = field.elements(np.arange(6).reshape(2, 3))
    assert field.mul(values, field.elements(5)).shape == field.add(values, values).shape == (2, 3)
    assert field.total(values, axis=1).shape == (2,)
    assert field.elements([]).shape == field.uniform(KEY, 0).shape == field.from_bytes(b"", 0).shape == (0,)


# ---- streams ---------------------------------------------------------------------------------------------


def test_a_stream_is_fixed_by_its_key_and_goes_on() -> None:
    assert stream(KEY, 100) == stream(KEY, 1000)[:100]
    assert stream(KEY, 100) != stream(b"l" * 32, 100)
    assert stream(KEY, 0) == b""


@FIELDS
def test_uniform_elements_are_in_range_and_repeat(field: Field) -> None:
    found = ints(field.uniform(KEY, 2000))
    assert all(0 <= value < field.prime for value in found)
    assert len(set(found)) == 2000
    assert found == ints(field.uniform(KEY, 2000))
    assert found[:10] == ints(field.uniform(KEY, 10))
    assert not set(found) & set(ints(field.uniform(b"l" * 32, 2000)))


@FIELDS
@pytest.mark.statistical
def test_uniform_elements_are_uniform(field: Field) -> None:
    """Counts of 16 intervals and of 16 residues, 16,000 draws each: the sum of squares over 1000, chi-squared with 15
    degrees of freedom, is above 72 with probability below 2e-9."""
    found = ints(field.uniform(b"u" * 32, 16_000))
    for cells in ([16 * value // field.prime for value in found], [value % 16 for value in found]):
        counts = np.bincount(cells, minlength=16)
        assert ((counts - 1000) ** 2).sum() / 1000 < 72


def test_the_pattern_that_is_no_element_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two streams hold it, with and without the three bits above; the third does not."""
    prime, top = SMALL.prime, 2**64 - 1
    draws = {0: [5, prime, 2**61, top, prime - 1], 1: [7, prime], 2: [2**63 + 9]}
    asked: list[tuple[bytes, int]] = []

    def scripted(key: bytes, size: int) -> bytes:
        asked.append((key, size))
        return np.array(draws[len(asked) - 1], dtype="<u8").tobytes()

    monkeypatch.setattr(fields, "stream", scripted)
    assert ints(SMALL.uniform(KEY, 5)) == [5, 7, 0, 9, prime - 1]
    assert [size for _, size in asked] == [40, 16, 8]
    assert len({key for key, _ in asked}) == 3
    assert {len(key) for key, _ in asked} == {32}


def test_large_elements_are_reduced_from_384_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [0, LARGE.prime, 2**384 - 1]
    monkeypatch.setattr(fields, "stream", lambda key, size: b"".join(v.to_bytes(48, "little") for v in values))
    assert ints(LARGE.uniform(KEY, 3)) == [0, 0, (2**384 - 1) % LARGE.prime]


def test_integers_have_so_many_bits() -> None:
    found = ints(integers(KEY, 500, 136))
    assert len(found) == 500
    assert max(found).bit_length() == 136
    assert all(type(value) is int for value in integers(KEY, 3, 8))
    assert max(ints(integers(KEY, 500, 8))) <= 255


# ---- bytes -----------------------------------------------------------------------------------------------


@FIELDS
def test_bytes_round_trip(field: Field) -> None:
    values = field.elements(edges(field))
    content = field.to_bytes(values)
    assert len(content) == field.width * len(values)
    assert content == b"".join(value.to_bytes(field.width, "little") for value in edges(field))
    found = field.from_bytes(content, len(values))
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)
    assert np.array_equal(field.add(found, found), field.add(values, values))  # it can be computed with


@FIELDS
@pytest.mark.parametrize("change", [-1, 1, 8, -8, 32, -32])
def test_other_numbers_of_bytes_are_refused(field: Field, change: int) -> None:
    content = field.to_bytes(field.uniform(KEY, 8))
    other = content[:change] if change < 0 else content + bytes(change)
    with pytest.raises(WireError, match="bytes of shares are expected"):
        field.from_bytes(other, 8)


@FIELDS
@pytest.mark.parametrize("at", [0, 1, 2])
def test_what_is_not_below_the_prime_is_refused(field: Field, at: int) -> None:
    for wrong in (field.prime, field.prime + 1, 2 ** (8 * field.width) - 1):
        values = [1, 2, 3]
        values[at] = wrong
        content = b"".join(value.to_bytes(field.width, "little") for value in values)
        with pytest.raises(WireError, match="below the prime"):
            field.from_bytes(content, 3)
