"""The driver of all seals: the cost is reserved before inputs are asked for, and not otherwise."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.identity import Identity
from hushtune.core.randomness import SimulatedRandomness
from hushtune.seals.ends import Ask, Due, Outcome, Replies, Seat, Trip, Trips, check_enough, converse
from hushtune.seals.forms import Form

OUTCOME = Outcome(np.array([1, 2]), {}, {})


class Talk:
    """Trips that are sent in order, and all that happened, in order."""

    def __init__(self, *trips: Trip) -> None:
        self.trips, self.log = trips, list[Any]()

    def server(self) -> Trips:
        try:
            for trip in self.trips:
                replies = yield trip
                self.log.append(("replies", dict(replies)))
            return OUTCOME
        finally:
            self.log.append("closed")

    def exchange(self, trip: Trip) -> Replies:
        self.log.append(trip.name)
        return {client: message[::-1] for client, message in trip.messages.items()}

    def reserve(self) -> None:
        self.log.append("reserve")


def test_replies_go_back_to_where_the_trip_came_from() -> None:
    talk = Talk(Trip("one", {"a": b"12", "b": b"34"}), Trip("two", {"a": b"56"}))
    assert converse(talk.server(), talk.exchange, talk.reserve) is OUTCOME
    assert talk.log == ["one", ("replies", {"a": b"21", "b": b"43"}), "two", ("replies", {"a": b"65"}), "closed"]


def test_the_cost_is_reserved_right_before_inputs_are_asked_for() -> None:
    talk = Talk(Trip("keys", {"a": b""}), Trip("inputs", {"a": b""}, inputs=True), Trip("open", {"a": b""}))
    converse(talk.server(), talk.exchange, talk.reserve)
    assert [entry for entry in talk.log if isinstance(entry, str)] == ["keys", "reserve", "inputs", "open", "closed"]


def test_if_it_cannot_be_reserved_nobody_is_asked_for_anything() -> None:
    talk = Talk(Trip("inputs", {"a": b""}, inputs=True))

    def refuse() -> None:
        raise ht.BudgetError("no")

    with pytest.raises(ht.BudgetError):
        converse(talk.server(), talk.exchange, refuse)
    assert talk.log == ["closed"]


def test_however_it_ends_the_servers_end_is_closed() -> None:
    talk = Talk(Trip("one", {"a": b""}))

    def broken(trip: Trip) -> Replies:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        converse(talk.server(), broken, talk.reserve)
    assert talk.log == ["closed"]


def test_no_reply_at_all_is_handed_back_too() -> None:
    """An empty mapping is what came back, not a conversation that begins."""
    seen: list[Any] = []

    def server() -> Generator[Trip, Replies, Outcome]:
        seen.append((yield Trip("one", {"a": b""})))
        return OUTCOME

    assert converse(server(), lambda trip: {}, int) is OUTCOME
    assert seen == [{}]


def test_enough_is_enough() -> None:
    check_enough(3, 5, {"a": "gone", "b": "gone"}, "answer")
    with pytest.raises(ht.AbortedError) as caught:
        check_enough(4, 5, {"a": "gone", "b": "late"}, "answer (dropouts=0.2)")
    assert str(caught.value) == "4 of 5 clients must answer (dropouts=0.2), but got 3; a: gone; b: late"


def test_of_many_reasons_a_few_are_shown() -> None:
    missing = {f"c{at}": "gone" for at in range(9)}
    with pytest.raises(ht.AbortedError, match=r"but got 1; c0: gone; c1: gone; c2: gone; and 6 more$"):
        check_enough(9, 10, missing, "answer")
    with pytest.raises(ht.AbortedError, match=r"but got 1; c0: gone; and 8 more$"):
        check_enough(9, 10, missing, "answer", most=1)


def test_what_is_due_says_how_many_values_are_opened() -> None:
    blocks = {"counts": 2, "sums": 6}
    assert Due(None, blocks, 9).opens == 8
    assert Due(Form("counts", at_least=2), blocks, 9).opens == 2
    assert Due(Form("sums", over="counts", least=1), blocks, 9).opens == 6


def test_nothing_secret_is_shown_by_accident() -> None:
    seat = Seat("r", ht.Roster(("a", "b")), 0, "terms", SimulatedRandomness(77, "secret"), Identity(bytes(range(32))))
    due = Due(None, {"votes": 1}, 9, lambda: np.array([123456]))
    ask = Ask(b"request", 1, 9, 1, True, None, 1, randomness=SimulatedRandomness(77, "secret"))
    for value in (seat, due, ask):
        for word in ("Randomness", "Identity", "lambda", "00010203"):
            assert word not in repr(value), (value, word)


def test_answers_of_one_step_are_not_those_of_another() -> None:
    first, second = (Ask(b"request", 1, 9, 1, True, None, 1) for _ in range(2))
    first.answers.append(1)
    first.missing["a"] = "gone"
    assert (second.answers, second.missing) == ([], {})
