"""Verifies a saved result: what it claims is computed again, and compared with what lies beside it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from hushtune.client.search.adaptive import Adaptive
from hushtune.core.checks import kind
from hushtune.core.errors import BoundError, HushtuneError
from hushtune.core.space import config_key
from hushtune.core.words import as_set, counted, up
from hushtune.federation.local import default_home
from hushtune.methods.base import Facts
from hushtune.privacy.calibration import events_of
from hushtune.privacy.events.training import TrainingSteps
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.limits import FAILURE
from hushtune.review.beside import Seen, charged, recorded, reported, signed
from hushtune.review.checks import Beside, Check
from hushtune.run.disclosures import CHOSEN, Disclosure, of_form, of_gathered, of_sum, of_tests
from hushtune.run.possible import check_possible
from hushtune.run.replay import Replay
from hushtune.run.result import Result
from hushtune.run.run import place_of
from hushtune.run.signature import signer_key
from hushtune.seals.base import largest_sum
from hushtune.seals.ends import Due
from hushtune.seals.forms import form_from_json
from hushtune.seals.oracle import ANSWERS

STATED = "the statement says what the records say"
WRITTEN = "every field of result.json is there once, and says what the others say"
_TRAFFIC = ("trips", "messages", "bytes")
_DAMAGED = (HushtuneError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True)
class Verification(Sequence[Check]):
    """All claims that were checked, and what lay beside the result.

    Args:
        checks: one for each claim.
        beside: what was looked for beside result.json, and whether it was found.
    """

    checks: tuple[Check, ...]
    beside: tuple[Beside, ...]

    @property
    def holds(self) -> bool:
        """Whether all claims hold."""
        return all(check.holds for check in self.checks)

    @overload
    def __getitem__(self, at: int) -> Check: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Check, ...]: ...

    def __getitem__(self, at: int | slice) -> Check | tuple[Check, ...]:
        return self.checks[at]

    def __len__(self) -> int:
        return len(self.checks)


def verify(
    folder: str | os.PathLike[str],
    *,
    signer: str | os.PathLike[str] | None = None,
    ledger: Ledger | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Verification:
    """Recomputes what result.json in the folder claims, and compares it with what lies beside it.

    This shows that a result is consistent with itself: epsilon, noise, the chosen config, disclosures and statement
    follow from its events and openings. It also compares run.json, report.html, result.sig and the coordinator's
    ledger, as far as they are found. Whether all these are what happened, no file can show; nor, for sums of bounded
    norm, into how many voters clients split their rows; nor settings that say only what clients compute, such as a
    lengthscale. A signature shows who answers for it.

    Args:
        folder: one that `hushtune run` wrote, or that was given to `tune` as `folder` or to `Result.save`.
        signer: who must have signed the result: a public key as 64 hex digits, or a file that holds what
            `hushtune identity show` prints. None: a signature that is there must hold, whoever made it.
        ledger: the coordinator's. Default: looked for under `home`, by the id that the result names.
        home: folder of ledgers. Default: $HUSHTUNE_HOME, else .hushtune in the current folder.
    """
    kind("signer", signer, str, os.PathLike)
    kind("ledger", ledger, Ledger)
    kind("home", home, str, os.PathLike)
    key = signer_key(signer) if signer is not None else None
    result, place = Result.load(folder), Path(folder)
    content = (place / "result.json").read_bytes()
    found = [
        _compared("run.json", lambda: recorded(place, result)),
        _compared("report.html", lambda: reported(place, content)),
        _compared("result.sig", lambda: signed(place, content, key)),
        _compared("ledger", lambda: charged(result, ledger, Path(home) if home is not None else default_home())),
    ]
    compared = [check for _, checks in found for check in checks]
    return Verification((*recomputed(result, content), *compared), tuple(beside for beside, _ in found))


def _compared(name: str, look: Callable[[], Seen]) -> Seen:
    """What lies beside the result; damaged records, here or there, are a claim that does not hold."""
    try:
        return look()
    except _DAMAGED as error:
        return Beside(name, True, "cannot be compared"), [Check(f"{name} can be compared", False, str(error))]


def recomputed(result: Result, content: bytes) -> list[Check]:
    """What a result claims, computed again from its own records.

    Args:
        result: as it was loaded.
        content: all bytes of the result.json that it was loaded from.
    """
    checks: list[Check] = []
    for part in (_method, _privacy, _noise, _chosen, _clients, _words):
        try:
            checks += part(result)
        except _DAMAGED as error:
            checks.append(Check(f"the records for {part.__name__.strip('_')} are whole", False, str(error)))
    try:
        checks.append(_written(result, content))
    except _DAMAGED as error:
        checks.append(Check(WRITTEN, False, str(error)))
    return checks


def _written(result: Result, content: bytes) -> Check:
    """Nothing stands in the file twice, or beside what is read, or otherwise than it follows from the rest."""
    twice: list[str] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        return dict(pairs)

    raw = json.loads(content, object_pairs_hook=once)
    again = json.loads(json.dumps(result.to_json()))
    wrong = twice + [path for path in _differing(raw, again) if path != "statement"]
    detail = f"not so: {', '.join(wrong[:5])}" if wrong else f"{len(raw)} fields"
    return Check(WRITTEN, not wrong, detail)


def _differing(raw: Any, again: Any, path: str = "") -> Iterator[str]:
    """Where two plain values differ, by name only: what a file holds beyond that is not repeated."""
    if isinstance(raw, dict) and isinstance(again, dict):
        for name in sorted(raw.keys() | again.keys()):
            if name not in raw or name not in again:
                yield f"{path}{name}"
            else:
                yield from _differing(raw[name], again[name], f"{path}{name}.")
    elif type(raw) is not type(again) or raw != again:
        yield path.rstrip(".")


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
        f"computed ({up(spent.epsilon, 6)}, {up(spent.delta)}), "
        f"stated ({up(result.spent.epsilon, 6)}, {up(result.spent.delta)})",
    )
    yield Check(
        "it stays within what was asked for",
        spent.epsilon <= privacy.epsilon and spent.delta <= privacy.delta,
        f"asked for ({as_set(privacy.epsilon)}, {as_set(privacy.delta)})",
    )
    voters = result.method.voters_each
    yield Check(
        "the unit is one that the method protects",
        privacy.unit == "record" or voters == 1,
        f"{privacy.unit}, {counted(voters, 'voter')} per client",
    )


def _noise(result: Result) -> Iterator[Check]:
    seal = result.seal
    honest = seal.honest(result.asked)
    noise, needed = result.noise, seal.needed(result.asked)
    carried = f"{honest} of {result.asked} clients"
    if noise.at == "nodes":
        carried = f"{noise.honest_nodes} of {noise.nodes} nodes"
    elif noise.at == "curator":
        carried = "the server"
    yield Check(
        "the noise is carried by the fewest who are counted on",
        honest == result.honest and result.answered >= needed,
        f"{carried}; {result.answered} clients answered, {needed} needed",
    )
    yield Check(
        "the nodes that are named are as many as the seal needs",
        len(result.nodes) == seal.served_by,
        f"{len(result.nodes)} named, {seal.served_by} needed",
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
        elif query.bound.tests:
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
    """What was opened is what so many clients can send, as far as noise lets one tell: the run's own check."""
    for query, opened in zip(replay.queries, result.opened, strict=True):
        why = ""
        try:
            check_possible(query, opened, result.method.voters_each, result.noise, result.honest)
        except BoundError as error:
            why = f": {error}"
        yield Check("the opened values are ones that clients can send", not why, f"'{query.name}'{why}")


def _smudging(result: Result, replay: Replay) -> Iterator[Check]:
    """lambda is what the seal says that each opening reaches; where it says nothing, none is claimed."""
    seal, voters = result.seal, result.method.voters_each
    share = result.noise.share_variance(seal.honest(result.asked))
    for query, opened in zip(replay.queries, result.opened, strict=True):
        largest = largest_sum(result.asked, voters, query.bound, share)
        bits = seal.claims(Due(form_from_json(opened.form), query.blocks, largest), result.asked)
        yield Check(
            "the smudging is what the seal reaches",
            opened.smudging == bits,
            "none is needed, and none stated"
            if bits is opened.smudging is None
            else f"{bits}, stated {opened.smudging}",
        )


def _totals(result: Result, replay: Replay) -> Iterator[Check]:
    """Every unit's vector adds up to the same, so their sum gives away how many units there were, up to noise."""
    voters = result.method.voters_each
    for query, opened in zip(replay.queries, result.opened, strict=True):
        if query.bound.total is not None and not query.bound.tests:
            expected = query.bound.total * voters * opened.answered
            found = sum(sum(values) for values in opened.blocks.values())
            spread = (query.bound.length * opened.noise_variance) ** 0.5
            noise, entries = result.noise, query.bound.length
            reach = noise.reach(result.honest, opened.answered, entries, FAILURE) if noise.scale else 0
            yield Check(
                "the opened values add up to what so many answers and voters contribute",
                abs(found - expected) <= reach,
                f"{found} found, {expected} expected, noise of standard deviation {spread:.4g}",
            )


def _clients(result: Result) -> Iterator[Check]:
    counted = [opened.answered + len(result.dropped) for opened in result.opened]
    whole = all(opened.own is None or len(opened.own) == opened.answered for opened in result.opened)
    yield Check(
        "answers and dropouts add up to the clients asked",
        whole
        and all(0 <= opened.answered <= result.asked for opened in result.opened)
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
        set(result.simulation) == {"seed", "figures"} and result.ledger is None
        if result.simulation is not None
        else result.ledger is not None,
        "simulation" if result.simulation is not None else "real run",
    )
    traffic = result.traffic if result.traffic is not None else dict.fromkeys(_TRAFFIC, 0.0)
    yield Check(
        "the traffic is a number of trips, of messages and of bytes",
        set(traffic) == set(_TRAFFIC) and all(count >= 0 for count in traffic.values()),
        "counted by the coordinator" if result.traffic is not None else "not counted",
    )
    yield Check(
        "a real run with an epsilon carries no times",
        not result.seconds or result.privacy is None or result.simulation is not None,
        f"{len(result.seconds)} on record",
    )
