"""One client of a hundred sends anything at all, and a coordinator mixes up what it carries: no score moves by more
than one ballot can, and whoever breaks a rule is named."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.seals.quorum.polls import Forge, Poll, candidates

from hushtune.client.query import Query
from hushtune.core.errors import AbortedError, BoundError
from hushtune.core.randomness import SimulatedRandomness
from hushtune.methods.vote.ballots import Approvals, GradedVotes, TopVotes
from hushtune.seals.ends import Outcome
from hushtune.seals.quorum import ceremony, checks
from hushtune.seals.quorum.envelopes import Submission
from hushtune.seals.quorum.field import SMALL

P = SMALL.prime
HALF = (P + 1) // 2  # the field's one half
LIAR = "client-07"
LENGTH = 6
VOTES = TopVotes(2, candidates(LENGTH), 0)
APPROVALS = Approvals(2, 0.1, candidates(LENGTH), 0)
GRADES = GradedVotes(0.5, 15, candidates(LENGTH), 0)


def vectors(query: Query, count: int, voters: int = 1) -> list[Any]:
    source = SimulatedRandomness(11, query.name)
    drawn = [query.bound.default(source) for _ in range(count * voters)]
    return list(np.array(drawn).reshape(count, voters, -1))


def poll(query: Query = VOTES, count: int = 100, voters: int = 1, **settings: Any) -> Poll:
    return Poll(query, vectors(query, count, voters), **settings)


def bits(*entries: int) -> Forge:
    """Honest shares of a dishonest ballot."""
    return lambda of, client, message: of.sealed(client, message, of.shares(client, entries)).to_bytes()


def shares(change: Callable[[list[bytes]], list[bytes]]) -> Forge:
    """Dishonest shares of an honest ballot."""

    def forge(of: Poll, client: str, message: bytes) -> bytes:
        return of.sealed(client, message, change(of.shares(client, of.bits(client)))).to_bytes()

    return forge


def submission(change: Callable[[Submission], Submission]) -> Forge:
    def forge(of: Poll, client: str, message: bytes) -> bytes:
        return change(of.sealed(client, message, of.shares(client, of.bits(client)))).to_bytes()

    return forge


def at(node: int, change: Callable[[bytes], bytes]) -> Forge:
    """One node gets another share; counted from 0, and from the end if negative."""

    def changed(sent: list[bytes]) -> list[bytes]:
        sent[node] = change(sent[node])
        return sent

    return shares(changed)


def one_off(content: bytes) -> bytes:
    """A share that lies on no polynomial of degree t with the others."""
    first = (int.from_bytes(content[:8], "little") + 1) % P
    return first.to_bytes(8, "little") + content[8:]


def cut_off(of: Poll, client: str, message: bytes) -> bytes:
    return (bits(1, 1, 0, 0, 0, 0)(of, client, message) or b"")[:-9]


FORGED: dict[str, Forge] = {
    "an entry of two": bits(2, 0, 0, 0, 0, 0),
    "a vote too many": bits(1, 1, 1, 0, 0, 0),
    "a vote too few": bits(1, 0, 0, 0, 0, 0),
    "all votes": bits(1, 1, 1, 1, 1, 1),
    "a negative vote": bits(1, 1, 1, -1, 0, 0),
    "a hundred votes and as many taken away": bits(100, -98, 0, 0, 0, 0),
    "halves of the field": bits(HALF, HALF, HALF, HALF, 0, 0),
    "the prime minus one everywhere": bits(*[-1] * LENGTH),
    "a large number": bits(2**60, 2 - 2**60, 0, 0, 0, 0),
    "another degree at the last node but one": at(-2, one_off),
    "another degree at the last node": at(-1, one_off),
    "another key at the first node": at(0, lambda content: bytes(32)),
    "a number that is no element": at(-1, lambda content: b"\xff" * 8 + content[8:]),
    "shares of random numbers": shares(lambda sent: [*sent[:-2], bytes(len(sent[-2])), sent[-1][::-1]]),
    "a ballot that is too long": bits(1, 1, *[0] * LENGTH),
    "a ballot that is too short": bits(1, 1),
    "no ballot": bits(),
    "shares of the wrong nodes": shares(lambda sent: [*sent[:-2], sent[-1], sent[-2]]),
    "one envelope of garbage": submission(lambda sent: replace(sent, envelopes=(b"", *sent.envelopes[1:]))),
    "envelopes in another order": submission(lambda sent: replace(sent, envelopes=sent.envelopes[::-1])),
    "other digests": submission(lambda sent: replace(sent, digests=sent.digests[::-1])),
    "garbage": lambda of, client, message: b"garbage",
    "nothing": lambda of, client, message: None,
    "a message that was cut off": cut_off,
    "its own question": lambda of, client, message: message,
}


def checked(tmp_path: Path, of: Poll, forge: Forge) -> Outcome:
    """What is opened if one client lies: the others' sum."""
    of.forged = {LIAR: forge}
    outcome = of.opened(tmp_path)
    assert list(outcome.values) == of.total(LIAR)
    assert set(outcome.missing) == {LIAR}
    return outcome


@pytest.mark.parametrize("kind", FORGED)
def test_one_client_of_many_moves_no_score(tmp_path: Path, kind: str) -> None:
    checked(tmp_path, poll(count=12), FORGED[kind])


@pytest.mark.parametrize("kind", ["an entry of two", "another degree at the last node"])
def test_one_client_of_a_hundred_moves_no_score(tmp_path: Path, kind: str) -> None:
    """The long form has the other kinds."""
    checked(tmp_path, poll(), FORGED[kind])


@pytest.mark.long
@pytest.mark.parametrize("m", [3, 5, 7])
def test_one_client_of_a_hundred_in_long(tmp_path: Path, m: int) -> None:
    for number, forge in enumerate(FORGED.values()):
        checked(tmp_path / str(number), poll(m=m), forge)


def test_empty_votes_count_as_none_given_and_nobody_is_named(tmp_path: Path) -> None:
    """A client may always be left out: that is no more than it could do by staying away."""
    of = poll(count=12)
    of.forged = {LIAR: bits(*[0] * LENGTH)}
    outcome = of.opened(tmp_path)
    assert list(outcome.values) == of.total(LIAR)
    assert not outcome.missing


@pytest.mark.parametrize(
    "entries",
    [
        (1, 1, 0, 0, 0, 0, 1, 0),  # a slack that is not what is left
        (1, 1, 1, 0, 0, 0, -1, 0),
        (1, 1, 1, 1, 0, 0, -1, -1),
        (0, 0, 0, 0, 0, 0, 2, 0),
        (2, 0, 0, 0, 0, 0, 0, 0),
        (1, 1, 1, 0, 0, 0, 0, 0),
        (1, 1, 0, 0, 0, 0),  # another bound's layout, without slack
    ],
    ids=str,
)
def test_slack_that_does_not_belong_to_the_ballot(tmp_path: Path, entries: tuple[int, ...]) -> None:
    checked(tmp_path, poll(APPROVALS, count=12), bits(*entries))


@pytest.mark.parametrize("entry", [(2, 0, 0, 0), (0, 0, 0, 2), (-1, 1, 1, 1), (HALF, 0, 0, 0)], ids=str)
def test_a_grade_above_the_best_one(tmp_path: Path, entry: tuple[int, ...]) -> None:
    """Four bits for each grade: none of them stands for more than 15."""
    of = poll(GRADES, count=12)
    of.forged = {LIAR: bits(*entry, *[1, 1, 1, 1] * (LENGTH - 1))}
    assert set(_left_out(tmp_path / "bad", of)) == {LIAR}
    of.forged = {LIAR: bits(*[1, 1, 1, 1] * LENGTH)}
    assert not _left_out(tmp_path / "good", of)


def _left_out(folder: Path, of: Poll) -> dict[str, str]:
    return of.opened(folder).missing


@pytest.mark.parametrize(
    "entries",
    [
        [1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0],  # one good ballot beside a bad one
        [2, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],  # what two ballots could come to
        [1, 1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0] * 3,
        [1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0],
    ],
    ids=str,
)
def test_a_clients_ballots_count_together_or_not_at_all(tmp_path: Path, entries: list[int]) -> None:
    checked(tmp_path, poll(count=10, voters=2), bits(*entries))


def anything(source: random.Random) -> list[int]:
    """A ballot, or nearly one."""
    entries = source.sample([1, 1, 0, 0, 0, 0], LENGTH)
    for _ in range(source.choice((0, 1, 1, 2, 3))):
        entries[source.randrange(LENGTH)] = source.choice((0, 1, 2, -1, HALF, source.randrange(P), P - 2))
    return entries


def test_whatever_a_ballot_holds_it_counts_as_one_that_a_client_can_cast_or_not_at_all(tmp_path: Path) -> None:
    """Most of sixty clients cast what comes to their minds: exactly those that keep to the rules count."""
    of, source = poll(count=60, dropouts=0.99), random.Random(4)
    cast = {client: anything(source) for client in of.clients[:50]}
    of.forged = {client: bits(*entries) for client, entries in cast.items()}
    outcome = of.opened(tmp_path)
    good = {client: entries for client, entries in cast.items() if _legal(of, entries) or not any(entries)}
    assert 5 < len(good) < 30
    assert set(outcome.missing) == set(cast) - set(good)
    assert list(outcome.values) == (np.array(of.total(*cast)) + np.sum(list(good.values()), axis=0)).tolist()


def _legal(of: Poll, entries: list[int]) -> bool:
    try:
        of.query.bound.check(np.array(entries, dtype=object).astype(np.int64))
    except BoundError:
        return False
    return True


@pytest.mark.parametrize("rule", ["degree", "bits", "conditions"])
def test_without_one_of_the_checks_a_client_chooses_the_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    """What the tests above would notice."""
    kind = {"degree": "another degree at the last node", "bits": "a negative vote", "conditions": "all votes"}[rule]
    if rule == "degree":
        monkeypatch.setattr(ceremony, "passed", lambda among, opened: checks.passed(among, opened) | True)
    else:
        draws = checks.Figures._draws
        nothing: Any = lambda self, what, count: draws(self, what, count) * np.uint64(what != rule)  # noqa: E731
        monkeypatch.setattr(checks.Figures, "_draws", nothing)
    with pytest.raises((AssertionError, AbortedError)):
        checked(tmp_path, poll(count=12), FORGED[kind])
