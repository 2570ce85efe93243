"""Frames: whole or refused, within a bound and within a time, and given up at once when nobody wants them."""

from __future__ import annotations

import os
import random
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator

import pytest

from hushtune.core.errors import WireError
from hushtune.federation.nodes import streams
from hushtune.federation.nodes.streams import LARGEST, Halt, Halted, PipeStream, Stream, moving_time


class Pair:
    """Two ends of a line, and the bare descriptors of the first one."""

    def __init__(self) -> None:
        self.source, far = os.pipe()
        away, self.sink = os.pipe()
        self.near = PipeStream(os.fdopen(self.source, "rb", 0), os.fdopen(self.sink, "wb", 0))
        self.far = PipeStream(os.fdopen(away, "rb", 0), os.fdopen(far, "wb", 0))


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.near.close()
    made.far.close()


def test_frames_of_any_size_arrive_whole(pair: Pair) -> None:
    source, halt = random.Random(1), Halt()
    sent = [source.randbytes(size) for size in (0, 1, 7, 65535, 65536, 65537, 1_000_003)]
    sender = threading.Thread(target=lambda: [pair.near.send(halt, frame[:5], frame[5:]) for frame in sent])
    sender.start()
    assert [pair.far.receive(halt) for _ in sent] == sent
    sender.join()


def test_a_frame_that_is_too_long_is_refused_before_memory_is_spent(pair: Pair) -> None:
    tracemalloc.start()
    try:
        for size, most in ((LARGEST + 1, LARGEST), (2**64 - 1, LARGEST), (11, 10)):
            other = Pair()
            os.write(other.sink, struct.pack(">Q", size) + b"some")
            with pytest.raises(WireError, match=f"at most {most} bytes, but one of {size} is announced"):
                other.far.receive(Halt(), most=most)
        os.write(pair.sink, struct.pack(">Q", LARGEST) + b"some")  # announced, but not there
        pair.near.close()
        with pytest.raises(ConnectionError, match="the other end is gone"):
            pair.far.receive(Halt())
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("left", [b"", b"\0" * 3, struct.pack(">Q", 5) + b"four"])
def test_an_end_in_the_middle_is_an_error(pair: Pair, left: bytes) -> None:
    os.write(pair.sink, left)
    pair.near.close()
    with pytest.raises(ConnectionError):
        pair.far.receive(Halt())
    with pytest.raises(ConnectionError):
        pair.far.send(Halt(), b"x" * 10**6)


@pytest.mark.parametrize("left", [b"", b"\0" * 3, struct.pack(">Q", 5) + b"four"])
def test_what_is_half_sent_has_a_time(pair: Pair, left: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_RATE", 2**30)
    monkeypatch.setattr(streams, "_SLOW", 0.02)
    os.write(pair.sink, left)
    with pytest.raises(TimeoutError):
        pair.far.receive(Halt(), patience=0.02)
    with pytest.raises(TimeoutError):
        pair.far.send(Halt(), b"x" * 2**17)  # more than a pipe holds, to nobody who reads


def test_a_byte_now_and_then_does_not_buy_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_SLOW", 0.1)
    over = threading.Event()

    def drip() -> None:
        os.write(pair.sink, struct.pack(">Q", 10**4))
        while not over.wait(0.005):
            os.write(pair.sink, b"x")

    dripping = threading.Thread(target=drip)
    dripping.start()
    with pytest.raises(TimeoutError):
        pair.far.receive(Halt())
    over.set()
    dripping.join()


class Drip(Stream):
    """Always has one more byte, and always takes one."""

    def _read(self, most: int) -> bytes:
        return b"\0"

    def _write(self, content: memoryview) -> int:
        return 1

    def close(self) -> None:
        pass


def test_nor_does_a_byte_that_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_SLOW", 0.02)
    monkeypatch.setattr(streams, "_RATE", 2**40)
    with pytest.raises(TimeoutError):
        Drip()._exactly(2**24, Halt(), time.monotonic() + 0.02)
    with pytest.raises(TimeoutError):
        Drip().send(Halt(), bytes(2**24))


def test_the_time_grows_with_the_size() -> None:
    assert moving_time(0) == 30
    assert 500 < moving_time(LARGEST) < 600


def test_whoever_waits_can_be_halted_now_and_later(pair: Pair) -> None:
    halt = Halt()
    threading.Timer(0.05, halt.set).start()
    with pytest.raises(Halted):
        pair.far.receive(halt)
    with pytest.raises(Halted):
        halt.pause(60)
    with pytest.raises(Halted):
        halt.check()
    Halt().check()
    Halt().pause(0.001)
