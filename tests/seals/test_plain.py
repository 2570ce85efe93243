"""Contributions that travel as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushtune as ht
from hushtune.core.errors import BoundError, WireError
from hushtune.core.randomness import SystemRandomness
from hushtune.core.wire import pack
from hushtune.federation.base import Dropped
from hushtune.privacy.bounds import KHot
from hushtune.seals.ends import Ask, Due, Outcome, Replies, Seat, Trip, converse
from hushtune.seals.plain import PlainServer, protect, summed, vector_of

INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9)
IDS = ("a", "b", "c", "d")


@given(INTEGERS)
def test_a_vector_arrives_as_it_left(values: list[int]) -> None:
    assert vector_of(protect(np.array(values, dtype=np.int64)), len(values)).tolist() == values


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (protect(np.array([1, 2, 3])), "a reply must hold 2 integers"),
        (protect(np.array([1])), "a reply must hold 2 integers"),
        (pack({"kind": "vector"}), "a reply must hold 2 integers"),
        (pack({"kind": "vector"}, bytes(8), bytes(8)), "a reply must hold 2 integers"),
        (pack({"kind": "sum"}, bytes(16)), "a reply must hold 2 integers"),
        (pack({"kind": "refused", "reason": "policy"}), "refused: policy"),
        (b"garbage", "must start with 'H'"),
        (Dropped("no reply in time"), "no reply in time"),
        (None, "no reply"),
        ("text", "no reply"),
    ],
)
def test_anything_else_is_nobodys_vector_and_says_why(reply: Any, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        vector_of(reply, 2)


def test_a_received_vector_can_be_added_to() -> None:
    """What comes from a message is a view of it, which nobody may write to."""
    vector = vector_of(protect(np.array([1, 2])), 2)
    vector += 1
    assert vector.tolist() == [2, 3]


def test_a_sum_is_of_what_arrived() -> None:
    assert summed({"a": np.array([1, -2]), "b": np.array([2**40, 5])}, 2).tolist() == [2**40 + 1, 3]
    assert summed({}, 3).tolist() == [0, 0, 0]


def opened(replies: Replies, needed: int, **changes: Any) -> tuple[Any, list[Trip]]:
    sent: list[Trip] = []

    class Server(PlainServer):
        def open(self, ask: Ask) -> Any:
            own, missing = yield from self.vectors(ask)
            return Outcome(summed(own, ask.length), missing, {}, own)

    def exchange(trip: Trip) -> Replies:
        sent.append(trip)
        return replies

    ask = Ask(b"request", 2, 2**50, needed, True, None, 2, **changes)
    return converse(Server(ht.Roster(IDS), 0.25).open(ask), exchange, int), sent


def test_everybody_gets_the_same_bytes_in_one_trip_that_is_charged() -> None:
    outcome, sent = opened({id_: protect(np.array([at, 1])) for at, id_ in enumerate(IDS)}, 4)
    assert sent == [Trip("asking clients", dict.fromkeys(IDS, b"request"), inputs=True)]
    assert outcome.values.tolist() == [6, 4]
    assert list(outcome.own) == list(IDS)


def test_a_stranger_is_not_counted_and_who_is_missing_is_named() -> None:
    replies = {"x": protect(np.array([9, 9])), **{id_: protect(np.array([1, 1])) for id_ in "abd"}}
    outcome, _ = opened(replies, 3)
    assert outcome.values.tolist() == [3, 3]
    assert outcome.missing == {"c": "no reply"}


def test_a_vector_that_no_client_can_send_is_left_out_and_its_sender_named() -> None:
    def check(vector: Any) -> None:
        if vector[0] > 5:
            raise BoundError("at most 5")

    replies = {id_: protect(np.array([at * 3, 1])) for at, id_ in enumerate(IDS)}
    outcome, _ = opened(replies, 2, check=check)
    assert outcome.values.tolist() == [3, 2]
    assert outcome.missing == dict.fromkeys("cd", "sent what no client can send: at most 5")
    with pytest.raises(ht.AbortedError, match="but got 2; c: sent what no client can send: at most 5; d: "):
        opened(replies, 3, check=check)


def test_too_few_abort_with_nothing_opened() -> None:
    with pytest.raises(ht.AbortedError, match=r"3 of 4 clients must answer \(dropouts=0.25\), but got 2; c: .*; d: "):
        opened({id_: protect(np.array([1, 1])) for id_ in "ab"}, 3)


def test_a_client_computes_its_vector_only_if_it_is_due() -> None:
    seat = Seat("r", ht.Roster(IDS), 0, "terms", SystemRandomness())
    end = ht.Clear().client(seat)
    assert (end.terms, end.done, end.dump(), end.made(b"reply")) == ("terms", True, b"", False)
    assert end.load(b"") is end
    reply = end.step(b"request", Due(None, {"votes": 2}, 9, lambda: np.array([3, -4])))
    assert vector_of(reply, 2).tolist() == [3, -4]
    for due in (None, Due(None, {"votes": 2}, 9)):
        with pytest.raises(ht.RefusedError, match="no input is due"):
            end.step(b"request", due)


def test_one_message_is_the_whole_conversation() -> None:
    expected = ht.Clear.expects({"run": "r"}, [], b"message")
    assert expected == ("r", "", b"message", True, True, False)
    assert ht.Clear().traffic(10, KHot(1, 7), 1, 99, 500, False) == (2, 500 + len(protect(np.zeros(7, dtype=np.int64))))
