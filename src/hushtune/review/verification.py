"""Verifies a saved result: everything it claims is computed again from the events and openings it recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hushtune.client.query import Query
from hushtune.client.search.adaptive import Adaptive
from hushtune.core.arrays import IntArray
from hushtune.core.errors import BoundError, HushtuneError
from hushtune.core.space import config_key
from hushtune.core.words import counted
from hushtune.methods.base import Facts
from hushtune.privacy.bounds import Scores
from hushtune.privacy.calibration import events_of
from hushtune.privacy.events.training import TrainingSteps
from hushtune.run.disclosures import CHOSEN, Disclosure, of_form, of_gathered, of_sum, of_tests
from hushtune.run.replay import Replay
from hushtune.run.result import Opened, Result
from hushtune.run.run import place_of
from hushtune.seals.base import largest_sum
from hushtune.seals.ends import Due
from hushtune.seals.forms import Form, form_from_json
from hushtune.seals.oracle import ANSWERS

STATED = "the statement says what the records say"


@dataclass(frozen=True)
class Check:
    """One claim, whether it holds, and the figures.

    Args:
        claim: in words.
        holds: whether it was found to be so.
        detail: the figures that were compared.
    """

    claim: str
    holds: bool
    detail: str


def verify(folder: str | os.PathLike[str]) -> list[Check]:
    """Recomputes what result.json in the folder claims.

    This shows that a result is consistent with itself: epsilon, noise, the chosen config, disclosures and statement
    follow from its events and openings. Whether those are what happened, no file can show; nor, for sums of bounded
    norm, into how many voters clients split their rows; nor settings that say only what clients compute, such as a
    lengthscale.

    Args:
        folder: one that `hushtune run` wrote, or that was given to `tune` as `folder` or to `Result.save`.
    """
    result = Result.load(folder)
    checks: list[Check] = []
    for part in (_method, _privacy, _noise, _chosen, _clients, _words):
        try:
            checks += part(result)
        except (HushtuneError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            checks.append(Check(f"the records for {part.__name__.strip('_')} are whole", False, str(error)))
    return checks


def _method(result: Result) -> Iterator[Check]:
    method, search = result.method, result.search
    facts = Facts(result.candidates, result.asked, result.privacy, result.seal, search)
    yield Check(
        "the method's settings are possible with this seal, privacy and search",
        method.settled(facts) == method and (method.adaptive or not isinstance(search, Adaptive)),
        f"{method.name}, search {search.to_json()}",
    )


def _privacy(result: Result) -> Iterator[Check]:
    if result.privacy is None:
        yield Check("no epsilon is claimed", not result.events, "the run was made without differential privacy")
        return
    privacy = result.privacy
    events = events_of(result.method.bounds(result.candidates), privacy, result.noise)
    own = tuple(event for event in result.events if not isinstance(event, TrainingSteps))
    yield Check(
        "the events follow from the method's bounds and the noise, but for those of private training",
        events == own,
        f"{len(events)} expected, {len(own)} of {len(result.events)} recorded",
    )
    spent = result.rule.spent([(result.events, privacy.delta)], privacy.delta)
    yield Check(
        "epsilon computed from the events is the epsilon stated",
        abs(spent.epsilon - result.spent.epsilon) <= 1e-6 * spent.epsilon and spent.delta == result.spent.delta,
        f"computed ({spent.epsilon:.6g}, {spent.delta:g}), stated ({result.spent.epsilon:.6g}, {result.spent.delta:g})",
    )
    yield Check(
        "it stays within what was asked for",
        spent.epsilon <= privacy.epsilon and spent.delta <= privacy.delta,
        f"asked for ({privacy.epsilon:g}, {privacy.delta:g})",
    )
    voters = result.method.voters
    yield Check(
        "the unit is one that the method protects",
        privacy.unit == "record" or voters == 1,
        f"{privacy.unit}, {counted(voters, 'voter')} per client",
    )


def _noise(result: Result) -> Iterator[Check]:
    seal = result.seal
    honest = seal.honest(result.asked)
    yield Check(
        "the noise is carried by the fewest honest clients that can complete a round",
        honest == result.honest and result.answered >= seal.needed(result.asked),
        f"{honest} of {result.asked} carry it; {result.answered} answered, {seal.needed(result.asked)} needed",
    )
    expected = [
        0.0 if ANSWERS in opened.blocks else result.noise.opened_variance(honest, opened.answered)
        for opened in result.opened
    ]
    yield Check(
        "the noise variance stated for each opened sum follows",
        expected == [opened.noise_variance for opened in result.opened],
        ", ".join(f"{value:.6g}" for value in expected),
    )


def _chosen(result: Result) -> Iterator[Check]:
    replay = Replay(result.run, result.candidates, result.search, result.asked, result.opened)
    config = result.method.run(replay)
    same = config_key(config) == config_key(result.config) and place_of(config, result.candidates) == result.index
    yield Check("the method decides the same from the opened values", same, f"decided again: {config}")
    yield Check(
        "what it noted, and whom it left out, follows from them",
        replay.notes == result.notes and replay.left_out == result.left_out,
        f"{len(replay.notes)} notes, {len(replay.left_out)} left out",
    )
    yield from _possible(result, replay)
    yield from _smudging(result, replay)
    yield from _totals(result, replay)
    seal, noise = result.seal, result.noise
    expected: list[Disclosure] = []
    for query, opened in zip(replay.queries, result.opened, strict=True):
        if opened.own is not None:
            expected.append(of_gathered(query, opened, seal))
        elif (form := form_from_json(opened.form)) is not None:
            expected.append(of_form(query, opened, form, seal))
        elif isinstance(query.bound, Scores):
            expected += of_tests(query, opened, seal, noise, result.privacy)
        else:
            expected += of_sum(query, opened, seal, result.asked, noise, result.privacy)
    yield Check(
        "the disclosures are those of the opened values",
        [*expected, CHOSEN] == result.disclosures,
        f"{len(expected) + 1} expected, {len(result.disclosures)} listed",
    )
    computed = [opened for opened in result.opened if opened.form is not None]
    yield Check(
        "forms of sums were computed by a seal that can, and without epsilon only",
        not computed or (seal.computes and result.privacy is None),
        f"{len(computed)} of {len(result.opened)} openings",
    )
    gathered = [opened for opened in result.opened if opened.own is not None]
    yield Check(
        "clients' own answers were opened under a seal that shows them, and without epsilon only",
        not gathered or (seal.shows_each and result.privacy is None),
        f"{len(gathered)} of {len(result.opened)} openings",
    )


def _possible(result: Result, replay: Replay) -> Iterator[Check]:
    """Clients' own answers are within their bound, and exact sums within what so many answers can add up to."""
    voters = result.method.voters
    for query, opened in zip(replay.queries, result.opened, strict=True):
        if (form := form_from_json(opened.form)) is not None:
            yield _possible_form(opened, form)
            continue
        if isinstance(query.bound, Scores):
            continue  # answers were checked when they were decided from
        blocks = [list(own.values()) for own in (opened.own or {}).values()] or [list(opened.blocks.values())]
        vectors = [np.concatenate([np.asarray(block) for block in own]) for own in blocks]
        most = query.bound.largest * (1 if opened.own is not None else voters * opened.answered)
        inside = all(np.abs(vector).max() <= most for vector in vectors) or opened.noise_variance > 0
        if opened.own is not None:
            inside = inside and not opened.blocks and all(_within(query, vector) for vector in vectors)
        yield Check("the opened values are ones that clients can send", inside, f"'{query.name}', largest {most}")


def _possible_form(opened: Opened, form: Form) -> Check:
    """Comparisons are 0 or 1; a quotient of what is at most its divisor is about 0 to 1."""
    values = np.asarray(opened.blocks[form.block], dtype=np.float64)
    inside = True
    if form.at_least is not None:
        inside = bool(np.isin(values, (0, 1)).all())
    elif form.over is not None:
        inside = bool((np.abs(values - 0.5) <= 1).all())
    return Check("the opened values are ones that clients can send", inside, f"'{opened.query}', {form.words}")


def _smudging(result: Result, replay: Replay) -> Iterator[Check]:
    """lambda is what the seal says that each opening reaches; where it says nothing, none is claimed."""
    seal, voters = result.seal, result.method.voters
    share = result.noise.share_variance(seal.honest(result.asked))
    for query, opened in zip(replay.queries, result.opened, strict=True):
        largest = largest_sum(result.asked, voters, query.bound, share)
        bits = seal.claims(Due(form_from_json(opened.form), query.blocks, largest), result.asked)
        yield Check(
            "the smudging is what the seal reaches",
            opened.smudging == bits,
            f"computed {bits}, stated {opened.smudging}",
        )


def _within(query: Query, vector: IntArray) -> bool:
    try:
        query.bound.check(vector)
    except BoundError:
        return False
    return True


def _totals(result: Result, replay: Replay) -> Iterator[Check]:
    """Every unit's vector adds up to the same, so their sum gives away how many units there were, up to noise."""
    voters = result.method.voters
    for query, opened in zip(replay.queries, result.opened, strict=True):
        if query.bound.total is not None:
            expected = query.bound.total * voters * opened.answered
            found = sum(sum(values) for values in opened.blocks.values())
            spread = (query.bound.length * opened.noise_variance) ** 0.5
            yield Check(
                "the opened values add up to what so many answers and voters contribute",
                abs(found - expected) <= 7 * spread,
                f"{found} found, {expected} expected, noise of standard deviation {spread:.4g}",
            )


def _clients(result: Result) -> Iterator[Check]:
    counted = [opened.answered + len(result.dropped) for opened in result.opened]
    whole = all(opened.own is None or len(opened.own) == opened.answered for opened in result.opened)
    yield Check(
        "answers and dropouts add up to the clients asked",
        whole
        and all(opened.answered <= result.asked for opened in result.opened)
        and (max(counted, default=0) >= result.asked if len(counted) > 1 else counted == [result.asked])
        and (len(result.opened) > 1 or not set(result.dropped) & set(result.late)),
        f"{result.asked} asked, {result.answered} answered, {len(result.dropped)} dropped, {len(result.late)} late",
    )


def _words(result: Result) -> Iterator[Check]:
    yield Check(
        STATED,
        result.stated == result.statement,
        "compared word by word",
    )
    yield Check(
        "a run is either a marked simulation or in a ledger",
        (result.simulation is None) == (result.ledger is not None),
        "simulation" if result.simulation is not None else "real run",
    )
