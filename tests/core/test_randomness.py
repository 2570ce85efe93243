from __future__ import annotations

import os
import random

import numpy as np
import pytest

from hushtune.core.randomness import SimulatedRandomness, SystemRandomness, drawn_from, words


class Fixed:
    """Gives the bytes it was given, once."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def bytes(self, size: int) -> bytes:
        given, self.content = self.content[:size], self.content[size:]
        return given


def test_real_randomness_is_the_operating_systems_and_follows_no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    random.seed(1)
    np.random.seed(1)
    first = SystemRandomness().bytes(32)
    random.seed(1)
    np.random.seed(1)
    assert SystemRandomness().bytes(32) != first
    monkeypatch.setattr(os, "urandom", lambda size: b"u" * size)
    assert SystemRandomness().bytes(5) == b"uuuuu"
    assert vars(SystemRandomness()) == {}


def test_a_run_without_a_mark_never_gets_a_seed() -> None:
    assert type(drawn_from(None, "noise")) is SystemRandomness
    assert type(drawn_from(0, "noise")) is SimulatedRandomness


def test_a_simulation_is_the_same_everywhere_and_for_ever() -> None:
    """The bytes themselves: if they change, every stored simulation does."""
    assert SimulatedRandomness(7, "client c0").bytes(8).hex() == "941cdfd99b31e251"


def test_streams_differ_by_seed_and_label_and_go_on() -> None:
    seen = set()
    for seed, label in ((1, "a"), (1, "b"), (2, "a"), (11, "a"), (1, "1 a"), (1, "a 1")):
        stream = SimulatedRandomness(seed, label)
        seen |= {stream.bytes(16) for _ in range(20)}
    assert len(seen) == 6 * 20


def test_a_stream_goes_on_in_another_process_where_it_stopped() -> None:
    stream = SimulatedRandomness(3, "a")
    for _ in range(5):
        stream.bytes(3)
    later = SimulatedRandomness(3, "a", stream.drawn)
    assert [later.bytes(9) for _ in range(3)] == [stream.bytes(9) for _ in range(3)]


def test_words_are_all_bits_of_the_source_in_order() -> None:
    content = bytes(range(48))
    drawn = words(Fixed(content), 2, 3)
    assert drawn.shape == (2, 3)
    assert drawn.dtype == np.uint64
    expected = [int.from_bytes(content[at : at + 8], "little") for at in range(0, 48, 8)]
    assert drawn.ravel().tolist() == expected
    assert words(Fixed(b"\xff" * 8), 1).tolist() == [2**64 - 1]
    assert words(SystemRandomness(), 0).shape == (0,)
    drawn[0, 0] = 0  # a copy of its own: callers may change it


@pytest.mark.statistical
def test_every_bit_of_a_simulated_word_is_as_often_set_as_not() -> None:
    """64 counts of 4,096 coins; six and a half standard deviations: false alarm below 64 * 1e-10."""
    drawn = words(SimulatedRandomness(5, "bits"), 4096)
    bits = (drawn[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.all(np.abs(bits.sum(axis=0).astype(int) - 2048) < 6.5 * 32)
