"""Who may not choose: common polynomials are nobody's, and a refresh is for circuits that have one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.seals.threshold.harness import RUN, Room, joint

from hushtune.core.errors import AbortedError, RefusedError
from hushtune.core.roster import Roster
from hushtune.core.wire import unpack
from hushtune.seals.forms import Form
from hushtune.seals.threshold.circuits import PARAMETERS, refreshes
from hushtune.seals.threshold.wire import common_seed, packed

pytestmark = pytest.mark.mhe

Make = Callable[..., Room]
DENSE = Form("counts", at_least=4)
COMPOSED = Form("counts", at_least=1_000)
COUNTS = [{"counts": [4, 3, 0, 4, 1]}, {"counts": [4, 0, 0, 0, 2]}]
MANY = [{"counts": [999, 500, 0]}, {"counts": [0, 500, 0]}]


def repacked(message: bytes, parts: Callable[[list[bytes]], list[bytes]], **changes: Any) -> bytes:
    """The same message with other parts, as a server or client sends it that knows about digests."""
    header, given = unpack(message)
    return packed({**{name: value for name, value in header.items() if name != "digest"}, **changes}, *parts(given))


def test_a_chosen_polynomial_reads_everything_and_a_chosen_share_reads_nothing() -> None:
    """The attack works on OpenFHE where a lead may send the polynomial a: so this test can fail."""
    found = joint("attack", parameters=vars(PARAMETERS[2**14]), numbers=[3, 0, 1, 7])
    assert found["chosen"] < 1e-6  # a ciphertext under a zero polynomial, read without any secret
    assert min(found["zero"], found["foreign"]) > 100  # the lead's share was made for such a one: it is of no use
    assert found["bands_chosen"] <= 8  # a party's secret, in the clear: three values and their noise
    assert found["bands"] > 1_000
    assert found["same"]


@pytest.mark.parametrize("foreign", [bytes, os.urandom], ids=["zero", "foreign"])
@pytest.mark.parametrize("trip", ["relin", "input"])
def test_a_key_that_brings_its_own_polynomial_is_refused(
    room: Make, trip: str, foreign: Callable[[int], bytes]
) -> None:
    def bring(name: str, number: int, content: bytes, is_reply: bool) -> bytes:
        if name != trip or number != 1 or is_reply:
            return content
        return repacked(content, lambda parts: [parts[0] + foreign(len(parts[0])), *parts[1:]])

    with pytest.raises(AbortedError, match=f"client-1 in trip '{trip}'.*not the common one, which nobody sends"):
        room(2, tamper=bring).open(DENSE, COUNTS, 8)


@pytest.mark.parametrize("half", [0, 1], ids=["public", "switch"])
@pytest.mark.parametrize("trip", ["relin", "input"])
def test_a_server_that_sends_zeros_is_refused(room: Make, trip: str, half: int) -> None:
    """b = 0 would do what a = 0 does: the value would stand in the ciphertext's first half."""

    def zeros(name: str, number: int, content: bytes, is_reply: bool) -> bytes:
        if name != trip or number != 1 or is_reply:
            return content
        at = half if trip == "input" else 0
        return repacked(content, lambda parts: [*parts[:at], bytes(len(parts[at])), *parts[at + 1 :]])

    with pytest.raises(AbortedError, match=f"client-1 in trip '{trip}'.*must not be zero"):
        room(2, tamper=zeros).open(DENSE, COUNTS, 8)


@pytest.mark.parametrize("at", [0, 1], ids=["public", "switch"])
def test_a_client_that_sends_zeros_is_refused_by_the_server(room: Make, at: int) -> None:
    def zeros(name: str, number: int, content: bytes, is_reply: bool) -> bytes:
        if name != "keys" or number != 0 or not is_reply:
            return content
        return repacked(content, lambda parts: [*parts[:at], bytes(len(parts[at])), *parts[at + 1 :]])

    here = room(2, tamper=zeros)
    with pytest.raises(AbortedError, match="must not be zero"):
        here.open(DENSE, COUNTS, 8)
    assert here.reserved == 0


def test_nobody_sees_another_share_before_its_own_is_given(room: Make) -> None:
    """Else it could choose its own so that the sum of all is a key whose secret it has."""
    here = room(3)
    here.open(None, [{"votes": [1, 0]}] * 3, 3)
    asked = [message for name, _, message, _ in here.sent if name == "keys"]
    assert len(asked) == 3
    assert len(set(asked)) == 1
    assert [len(part) for part in unpack(asked[0])[1]] == [len(b"request")]


def test_the_common_polynomials_are_those_of_run_roster_and_round() -> None:
    one, other = Roster(("a", "b")), Roster(("a", "c"))
    seeds = [common_seed(*given) for given in ((RUN, one, 0), (RUN, other, 0), ("b" * 32, one, 0), (RUN, one, 1))]
    assert len(set(seeds)) == 4
    assert common_seed(RUN, Roster(("a", "b")), 0) == seeds[0]


@pytest.mark.parametrize("form", [DENSE, None], ids=["comparison", "sum"])
def test_a_refresh_is_refused_where_the_circuit_has_none(room: Make, form: Form | None) -> None:
    here = room(2)
    here.open(form, COUNTS, 8)
    (message,) = (m for name, number, m, _ in here.sent if name == "decrypt" and number == 1)
    with pytest.raises(RefusedError, match="this circuit has 0 refreshes, but got a message for number 1"):
        here.ends[1].step(repacked(message, list, trip="refresh", turn=1), None)


def test_refreshes_come_in_order_and_no_more_often_than_the_circuit_has_them(room: Make) -> None:
    refused = []

    def early(name: str, number: int, content: bytes, is_reply: bool) -> bytes:
        if name == "refresh" and number == 1 and not is_reply and not refused:
            with pytest.raises(RefusedError, match="refresh 2 must follow refresh 1") as error:
                here.ends[1].step(repacked(content, list, turn=2), None)
            refused.append(error)
        return content

    here = room(2, tamper=early)
    assert np.rint(here.open(COMPOSED, MANY, 2_000)).tolist() == [0, 1, 0]
    assert refused
    most = refreshes(here.circuit(COMPOSED, 2, 2_000, 3))
    asked = [(m, r) for name, number, m, r in here.sent if name == "refresh" and number == 1]
    assert len(asked) == most > 0
    with pytest.raises(RefusedError, match=f"has {most} refreshes, but got a message for number {most + 1}"):
        here.ends[1].step(repacked(asked[-1][0], list, turn=most + 1), None)
    assert here.ends[1].step(asked[-1][0], None) == asked[-1][1]  # a repetition is answered as before


def test_a_refresh_after_the_decryption_is_refused(room: Make) -> None:
    def skip(name: str, number: int, content: bytes, is_reply: bool) -> bytes:
        """A server that has some ciphertext decrypted before it asks for the first refresh."""
        if name == "refresh" and number == 1 and not is_reply:
            (given,) = (unpack(reply)[1] for trip, client, _, reply in here.sent if trip == "input" and client == 0)
            here.ends[1].step(repacked(content, lambda parts: given[:1], trip="decrypt", turn=0), None)
        return content

    here = room(2, tamper=skip)
    with pytest.raises(AbortedError, match="must come before what it is for is decrypted"):
        here.open(COMPOSED, MANY, 2_000)
