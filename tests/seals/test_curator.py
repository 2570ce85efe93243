"""A server that is trusted with every contribution, and with the noise. Its oracle has tests of its own."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.randomness import SimulatedRandomness
from hushtune.privacy.bounds import Scores
from hushtune.privacy.noise import gaussian
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Protected
from hushtune.seals.ends import Ask, Outcome, converse
from hushtune.seals.oracle import NONE, Oracle
from hushtune.seals.plain import protect

IDS = ("a", "b", "c")
VECTORS = {"a": np.array([5, 0, 9]), "b": np.array([1, 1, 9]), "c": np.array([0, 1, 9])}
SCORES = Scores(length=3, tests=2, steps=10, sensitivity=10)


def opened(silent: str = "", **changes: Any) -> Outcome:
    fields = {"noise": Noise(4.0, "curator"), "randomness": SimulatedRandomness(1, "curator 0"), **changes}
    replies = {id_: protect(vector) for id_, vector in VECTORS.items() if id_ not in silent}
    server = ht.Curator(dropouts=0.4).server("r", ht.Roster(IDS), "terms")
    return converse(server.open(Ask(b"request", 3, 99, 2, True, None, 3, **fields)), lambda trip: replies, int)


def test_the_noise_is_added_to_the_sum_once_whoever_answers() -> None:
    noise = gaussian.sample(4.0, 3, SimulatedRandomness(1, "curator 0"))
    assert np.abs(noise).max() > 0
    assert (opened().values - noise).tolist() == [6, 2, 27]
    fewer = opened(silent="a")
    assert (fewer.values - noise).tolist() == [1, 2, 18]
    assert fewer.missing == {"a": "no reply"}
    assert fewer.own is None


def test_clients_add_none_and_the_opened_variance_is_the_curators_however_many_there_are() -> None:
    seal = ht.Curator(corrupt=0.5)
    noise = seal.noise(4.0)
    assert noise.share_variance(seal.honest(10)) == 0
    assert noise.opened_variance(5, 3) == noise.opened_variance(5, 10) == 16


def test_questions_are_answered_and_the_sums_are_not_opened() -> None:
    answers: list[int] = []

    def choose(oracle: Oracle) -> int:
        none = oracle.above_threshold(Fraction(99), [0, 1, 2])
        assert none is None
        assert answers == [NONE]  # on record before the next question
        return oracle.noisy_max("exponential")

    missing: dict[str, str] = {}
    loud = {"scores": SCORES, "units": 3, "noise": Noise(1.0, "curator"), "choose": choose, "answers": answers}
    outcome = opened(silent="b", missing=missing, **loud)
    assert outcome.values.tolist() == answers == [NONE, 2]
    assert missing == outcome.missing == {"b": "no reply"}


def test_without_epsilon_there_is_nothing_to_be_trusted_with() -> None:
    ht.Curator().check_privacy(True)
    with pytest.raises(ht.SettingError, match="give `privacy`, or use seal 'clear'"):
        ht.Curator().check_privacy(False)


def test_the_statement_says_who_is_trusted() -> None:
    (line,) = ht.Curator().protects(Protected(3, False, True, 0.0))
    assert line.startswith("TRUSTED: the server, with every client's own contribution")
    assert line.endswith("not against the server.")
    assert ht.Curator.shows_each
    assert ht.Curator.mechanisms[0] == "permute-and-flip"
