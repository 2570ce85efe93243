"""MPyC beside hushtune's own arithmetic: the same results on the same inputs; and what one node that only looks reads
of a comparison in stock MPyC, which is why hushtune does not compute with it."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.seals.quorum.attacks import factors_at_zero
from tests.seals.quorum.crowds import computed, dealt

from hushtune.seals.quorum.field import LARGE
from hushtune.seals.quorum.selection import largest, quotients
from hushtune.seals.quorum.sharing import crowd

pytestmark = pytest.mark.quorum

HERE = Path(__file__).parent
BITS, COUNT = 10, 32  # of mpyc_party.py
SECONDS = 120


def oracle(**cases: Any) -> dict[str, list[int]]:
    command = [sys.executable, str(HERE / "mpyc_oracle.py"), "--no-log"]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, check=True, timeout=SECONDS)
    found: dict[str, list[int]] = json.loads(done.stdout)
    return found


# ---- the same results ------------------------------------------------------------------------------------


def test_the_largest_of_random_numbers_is_mpycs() -> None:
    source = random.Random(1)
    cases = [[source.randint(-top, top) for _ in range(source.randint(1, 12))] for top in (1, 2, 5, 1000, 2**40) * 12]
    cases += [[3, 3, 3], [-1, -1], [0, -5, 0], [-7, -7, -3, -3]]
    found = []
    for at, numbers in enumerate(cases):
        among = crowd((3, 5)[at % 2])
        shares = dealt(LARGE, among, numbers, seed=at)
        program = lambda engine, place, shares=shares: largest(engine, shares[place], 42)  # noqa: E731
        found += computed(among, program, seed=at)
    assert found == oracle(largest=cases, signs=[0], quotients=[])["largest"]


def test_signs_of_random_numbers_are_mpycs() -> None:
    source, among = random.Random(2), crowd(3)
    numbers = [0, 1, -1, 2**70, -(2**70)] + [source.randint(-(2**bits), 2**bits) for bits in range(1, 71)]
    shares = dealt(LARGE, among, numbers)
    found = computed(among, lambda engine, at: engine.at_least_zero(shares[at], 71))
    assert found == oracle(largest=[], signs=numbers, quotients=[])["signs"]


def test_quotients_of_random_numbers_are_right_by_mpyc() -> None:
    source, among = random.Random(3), crowd(3)
    pairs = [(0, 1), (1, 1), (7, 7), (2**30 - 1, 2**23)]
    while len(pairs) < 60:
        below = source.randint(1, 2 ** source.randint(1, 30) - 1)
        pairs.append((source.randint(0, min(2**30, 256 * below) - 1), below))
    above, below = (dealt(LARGE, among, [pair[at] for pair in pairs], seed=at) for at in (0, 1))
    found = computed(among, lambda engine, at: quotients(engine, above[at], below[at], 30, 8))
    cases = [(*pair, quotient) for pair, quotient in zip(pairs, found, strict=True)]
    assert oracle(largest=[], signs=[0], quotients=cases)["quotients"] == [1] * len(cases)
    wrong = [(a, b, quotient + 1) for a, b, quotient in cases] + [(a, b, quotient - 1) for a, b, quotient in cases]
    assert oracle(largest=[], signs=[0], quotients=wrong)["quotients"] == [0] * len(wrong)


# ---- what stock MPyC opens -------------------------------------------------------------------------------


def seen_by_party_0(numbers: list[list[int]]) -> dict[str, Any]:
    """Three processes on loopback; parties 1 and 2 give a list of numbers each, party 0 nothing."""
    ports = []
    places = [socket.socket() for _ in range(3)]
    for place in places:
        place.bind(("127.0.0.1", 0))
        ports.append(place.getsockname()[1])
    for place in places:
        place.close()
    addresses = [part for port in ports for part in ("-P", f"127.0.0.1:{port}")]
    command = [sys.executable, str(HERE / "mpyc_party.py"), "--no-log", *addresses]
    parties = [
        subprocess.Popen([*command, "-I", str(at)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for at in range(3)
    ]
    try:
        for party, own in zip(parties, numbers, strict=True):
            assert party.stdin is not None
            party.stdin.write(json.dumps(own))
            party.stdin.close()
            party.stdin = None
        printed = [party.communicate(timeout=SECONDS)[0] for party in parties]
    finally:
        for party in parties:
            party.kill()
            party.wait()
    seen: dict[str, Any] = json.loads(printed[0])
    return seen


def zero_tested(low: int, masked: int, sign: int, prime: int) -> int:
    """What is tested in a comparison, if these are the mask's lower bits and its sign (Toft's way, as MPyC has it)."""
    product, differ = 1, 0
    for at in range(BITS - 1, -1, -1):
        one, other = (masked >> at) & 1, (low >> at) & 1
        product = product * (sign - (one - other) + 3 * differ) % prime
        differ += one ^ other
    return product * (sign - 1 + 3 * differ) % prime


def differences(seen: dict[str, Any], at: int) -> set[int]:
    """What the difference of two compared numbers may be, from one passive node's view."""
    prime, masked = seen["prime"], seen["masked"][at] % 2**BITS
    product = {int(point): values[at] for point, values in seen["product"].items()}
    secrets = set(factors_at_zero(product, 1, seen["share"][at], prime)) - {0}
    found = set()
    for low in range(2**BITS):
        if any(zero_tested(low, masked, sign, prime) in secrets for sign in (1, -1)):
            difference = (masked - low) % 2**BITS
            found.add(difference - 2**BITS if difference >= 2 ** (BITS - 1) else difference)
    return found


def test_one_passive_node_of_stock_mpyc_reads_differences() -> None:
    """Products are opened without a sharing of zero, and factored. Whether a comparison gives its operands away is the
    toss of a coin in it; that none of 32 does has a chance of 2^-32. What nodes of hushtune open is looked at in
    test_transcript.py, with the same factoring."""
    source = random.Random(4)
    one, other = ([source.randrange(200) for _ in range(COUNT)] for _ in range(2))
    seen = seen_by_party_0([[0] * COUNT, one, other])
    read = [differences(seen, at) for at in range(COUNT)]
    truth = [a - b for a, b in zip(one, other, strict=True)]
    exact = [found == {true} for found, true in zip(read, truth, strict=True)]
    assert sum(exact) >= 1
    assert all(true in found for found, true in zip(read, truth, strict=True) if found)
