"""The privacy statement: what a run revealed, in plain words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hushtune.core.words import as_set, down, up
from hushtune.methods.figures import config_text
from hushtune.privacy.accounting import Sums, renyi_epsilon
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.training import TrainingSteps
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Protected

if TYPE_CHECKING:
    from hushtune.run.result import LedgerNote, Result

RELATIONS = {
    "replace-one": "one {unit}'s data replaced by anything else",
    "zero-out": "one {unit}'s contribution left out, while everybody knows who took part",
    "add-remove": "one {unit} added or removed",
}

_RECORDS = (
    "  A record is one row, or all rows under one person's name where a client's data names its subjects (replaced, "
    "they keep that name). It touches one part of its client's rows, and so one voter.",
    "  NOT covered: a person with rows at two clients, or with several rows that no subject column ties together; what "
    "a client computed from all its rows beforehand (a scaler, a feature selection); a loader that fails, or reads "
    "other rows otherwise, because of one record: hand over raw rows, and parse them in the objective.",
)

_COUNTED = (
    "how many rows there are to train on: that number is PUBLIC, as rate and steps follow from it, unless the trainer "
    "was given `rows`"
)
_NOT_COVERED = (
    "the training that follows, unless it is private itself",
    "who took part, and who dropped out",
    "how long a client took, and the traffic it caused",
    "anything a user's own code prints or stores",
)


def not_covered(result: Result) -> tuple[str, ...]:
    """What the guarantee says nothing about."""
    trained = any(isinstance(event, TrainingSteps) for event in result.events)
    return (*((_COUNTED, *_NOT_COVERED[1:]) if trained else _NOT_COVERED), *result.method.not_covered)


def statement(result: Result) -> str:
    """The statement as lines of text."""
    return "\n".join([*_heading(result), *_guarantee(result), *_learned(result), *_trust(result), *_rest(result)])


def _heading(result: Result) -> list[str]:
    lines = []
    if result.simulation is not None:
        lines.append(
            "SIMULATION: noise and ballots come from a seed, no ledger was charged, and reference figures may be "
            "shown. What follows is what a real run with these settings would guarantee."
        )
    voters = result.method.voters_each
    each = f", each with {voters} voters" if voters > 1 else ""
    beyond = len(result.candidates.outside)
    chosen = f"1 of {len(result.candidates)} public candidates" + (f", {beyond} outside their space" if beyond else "")
    if result.index is None:
        chosen = "a config that is not among its public candidates"
    lines.append(
        f"Method {result.method.name} chose {chosen}; {result.asked} clients were asked, "
        f"{result.answered} answered{each}."
    )
    lines += _opened_least(result)
    lines += [f"  {words}" for words in result.method.rests_on(result.asked * voters)]
    for name, config in result.method.beside(result.candidates).items():
        same = "the same config" if config == result.config else config_text(config)
        lines.append(f"  By itself, {name.removesuffix(' alone')} would have chosen {same}.")
    missing = "not counted" if len(result.opened) == 1 else "not counted in all sums"
    for client, reason in (result.dropped | result.left_out).items():
        lines.append(f"  {missing}: {client} ({reason})")
    for client, reason in result.late.items():
        lines.append(f"  counted, but of no help in opening the sum: {client} ({reason})")
    return lines


def _opened_least(result: Result) -> list[str]:
    """That nothing but a place was opened, where that is so."""
    method = result.method
    if not method.consults or any(b.tests != 1 or not b.only_max for b in method.bounds(result.candidates)):
        return []
    return ["  Only the winner's place was opened: no candidate's total, and not how far ahead the winner is."]


def _guarantee(result: Result) -> list[str]:
    privacy = result.privacy
    if privacy is None:
        return ["Guarantee: NONE. No epsilon was asked for; what was opened is exact."]
    relation = RELATIONS[privacy.neighbours].format(unit=privacy.unit)
    return [
        f"Guarantee: ({up(result.spent.epsilon)}, {up(result.spent.delta)})-differential privacy for each "
        f"{privacy.unit}, neighbours '{privacy.neighbours}': {relation}.",
        f"  Asked for: epsilon {as_set(privacy.epsilon)}, delta {as_set(privacy.delta)}. Computed from the recorded "
        f"events under rule '{result.rule.name}'.",
        _noise(result),
        *_scored_on(result),
        *_sampling(result),
        *_beside(result),
        *_trained(result),
        "  A client whose scoring fails contributes a vector that depends on no data; nobody is told.",
        *(_RECORDS if privacy.unit == "record" else ()),
    ]


def _noise(result: Result) -> str:
    if any(isinstance(event, PureTests) for event in result.events):
        if not result.noise.scale:
            return "  Noise: none is needed, because what is opened is the same whatever the data are."
        return (
            f"  Noise: exact {result.method.drawn(result.seal, result.noise.scale)}, where one unit moves two sums "
            f"apart by at most {result.events[0].epsilon * result.noise.scale:.0f}; drawn by {_drawers(result.noise)}."  # type: ignore[attr-defined]
        )
    if result.noise.at == "curator":
        return (
            f"  Noise: Gaussian of standard deviation {result.noise.scale:.4g}, rounded to integers, which the "
            "server draws and adds to each sum."
        )
    if result.noise.at == "nodes":
        return (
            f"  Noise: integer (Skellam) of standard deviation {result.noise.scale:.4g} from any "
            f"{result.noise.honest_nodes} of {result.noise.nodes} nodes, in shares that each node draws itself."
        )
    return (
        f"  Noise: integer (Skellam) of standard deviation {result.noise.scale:.4g} from any "
        f"{result.honest} honest clients, in shares that each client draws itself."
    )


def _drawers(noise: Noise) -> str:
    """Who draws what hides the answers to tests."""
    if noise.at == "nodes":
        return f"all {noise.nodes} nodes in shares, any {noise.honest_nodes} of which suffice"
    return "the server"


def _scored_on(result: Result) -> list[str]:
    """Which rows scores are computed on, where scores are tested."""
    return [f"  Scored on: {result.method.scored_on}"] if result.method.scored_on else []


def _trained(result: Result) -> list[str]:
    """Private training that is charged with the run."""
    return [
        f"  It includes the training that follows: {event.words}."
        for event in result.events
        if isinstance(event, TrainingSteps)
    ]


def _sampling(result: Result) -> list[str]:
    """What the guarantee counts on besides noise."""
    opened = [event for event in result.events if not isinstance(event, TrainingSteps)]
    rates = Counter(rate for event in opened if (rate := getattr(event, "rate", 1.0)) < 1)
    if not rates:
        return []
    often = ", ".join(f"{rate:g} in {times} of {len(opened)} sums" for rate, times in sorted(rates.items()))
    known = "the server and the client itself" if result.seal.shows_each else "the client itself"
    return [
        f"  Sampling: a client's vector is in a sum with chance {often}, by a coin that nobody but {known} can see: "
        "who is not in it sends zeros. The guarantee counts on that."
    ]


def _beside(result: Result) -> list[str]:
    """What epsilon of a curator's noise would be by Rényi divergences, if those are not the rule."""
    assert result.privacy is not None
    if result.noise.at != "curator" or not isinstance(result.rule, Sums) or not result.privacy.delta:
        return []
    renyi = renyi_epsilon(result.events, result.privacy.delta)
    if renyi <= result.spent.epsilon:  # what takes long to account for is accounted so
        return ["  Accounted for by Rényi divergences."]
    return [f"  Accounted for by privacy loss distributions; by Rényi divergences epsilon would be {up(renyi)}."]


def _learned(result: Result) -> list[str]:
    lines = ["Who learned what:"]
    for d, times in Counter(result.disclosures).items():
        cost = ""
        if d.epsilon is not None and result.privacy is not None:  # "epsilon 0" beside exact values would mislead
            cost = f", epsilon {up(d.epsilon)}"
        often = f"; {times} times" + (", that each" if cost else "") if times > 1 else ""
        lines.append(f"  {d.to}: {d.what}, shape {tuple(d.shape)}; {d.mechanism}{cost}{often}")
    if result.notes:
        notes = (
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in result.notes.items()
        )
        lines.append(f"  Computed from the above: {'; '.join(notes)}.")
    return lines


def _trust(result: Result) -> list[str]:
    reached = min((opened.smudging for opened in result.opened if opened.smudging is not None), default=0.0)
    answers = sum(event.times for event in result.events if isinstance(event, PureTests))
    facts = Protected(
        clients=result.asked,
        pinned=result.pinned,
        private=result.privacy is not None,
        smudging=reached,
        nodes=result.nodes,
        epsilon=result.spent.epsilon,
        answers=answers,
        entries=len(result.candidates),
        voters=result.method.voters_each,
    )
    return result.seal.protects(facts)


def _rest(result: Result) -> list[str]:
    lines = []
    if result.ledger is not None:
        lines += books(result.ledger, "Coordinator's ledger (each client also keeps its own)")
    lines.append(f"Not covered: {'; '.join(not_covered(result))}.")
    return lines


def books(note: LedgerNote, whose: str) -> list[str]:
    """What a ledger says before and after."""
    age = (
        "NEW; what was spent on this data before, elsewhere, is not in it"
        if note.new
        else f"{note.runs} runs on record"
    )
    lines = [f"{whose}: {age}."]
    if note.limit is not None and note.left is not None:
        lines.append(
            f"  Limit epsilon {as_set(note.limit.epsilon)}, delta {as_set(note.limit.delta)}; "
            f"spent {up(note.spent.epsilon)}, {up(note.spent.delta, 3)}; "
            f"left {down(note.left.epsilon)}, {down(note.left.delta, 3)}."
        )
    if note.wanted is not None:
        lines.append(
            f"  It had less left than epsilon {as_set(note.wanted.epsilon)}, delta {as_set(note.wanted.delta)}, which "
            "was asked for: the run opens fewer sums."
        )
    if note.exact:
        lines.append(f"  {note.exact} of the runs on record opened exact values: no epsilon covers those.")
    return lines
