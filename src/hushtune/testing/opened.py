"""What is checked of the values that a run opened."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hushtune.client.query import Query, query_from_json, query_to_json
from hushtune.core.arrays import IntArray
from hushtune.core.space import Candidates, Config
from hushtune.methods.base import Method, Openings
from hushtune.privacy.bounds import Bound
from hushtune.run.disclosures import CHOSEN
from hushtune.run.replay import Replay
from hushtune.run.result import Opened, Result
from hushtune.seals.forms import form_from_json
from hushtune.seals.oracle import ANSWERS
from hushtune.testing.values import expect

_QUOTIENT_ERROR = 0.01  # of quotients under encryption: their fitted reciprocal's, and everybody's smudging


@dataclass(frozen=True)
class Probe(Method):
    """Opens the sums of given queries, and decides nothing.

    Args:
        texts: the queries as JSON.
    """

    texts: tuple[str, ...]
    name: ClassVar[str] = "hushtune-testing-probe"

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """Those of the queries."""
        return tuple(query.bound for query in self._queries())

    def run(self, run: Openings) -> Config:
        """One sum after the other."""
        for query in self._queries():
            run.sum(query)
        return run.candidates[0]

    def _queries(self) -> list[Query]:
        return [query_from_json(json.loads(text)) for text in self.texts]


def probe_of(queries: Sequence[Query]) -> Probe:
    """The method that opens the sums of these."""
    return Probe(tuple(json.dumps(query_to_json(query)) for query in queries))


def _lengths(opened: Opened) -> int:
    """How many values an opening holds, of a sum or of one client."""
    blocks = next(iter(opened.own.values())) if opened.own else opened.blocks
    return sum(len(values) for values in blocks.values())


def words(query: Query, opened: Opened) -> str:
    """What an opening showed."""
    if opened.own is not None:
        return f"each client's own: {query.meaning}"
    if ANSWERS in opened.blocks:
        only = query.bound.only_max and query.bound.tests == 1
        return f"{'the winner of' if only else 'answers to tests of'} the summed {query.meaning}"
    form = form_from_json(opened.form)
    return f"summed {query.meaning}" if form is None else f"{form.words}, of the summed {query.meaning}"


def check_disclosures(result: Result) -> None:
    """Every opened value is disclosed with its shape and its cost; statement and JSON name the guarantee's terms."""
    raw, words = result.to_json(), result.statement
    expect(result.disclosures[-1] == CHOSEN, "the last disclosure must be the chosen config")
    if result.privacy is None:
        expect("Guarantee: NONE" in words and "exact" in words, "without epsilon the statement must say 'exact'")
        expect(raw["privacy"] is None and raw["spent"] is None, "without epsilon no guarantee may be claimed")
    else:
        unit, neighbours = result.privacy.unit, result.privacy.neighbours
        told = f"for each {unit}, neighbours '{neighbours}'"
        expect(told in words, f"the statement must say: {told}")
        expect((raw["privacy"]["unit"], raw["privacy"]["neighbours"]) == (unit, neighbours), "result.json: other terms")
    left = list(result.disclosures[:-1])
    for opened in result.opened:
        shape = (opened.answered, _lengths(opened)) if opened.own else (_lengths(opened),)
        found = next((one for one in left if tuple(one.shape) == shape), None)
        if found is None:
            raise AssertionError(f"an opening of '{opened.query}' with shape {shape} has no disclosure of its own")
        left.remove(found)
        if result.privacy is None:
            expect(found.epsilon is None, f"an exact opening of '{opened.query}' must not claim an epsilon")
        else:
            paid = found.epsilon is not None and 0 < found.epsilon <= result.privacy.epsilon
            expect(paid, f"an opening of '{opened.query}' must say what it costs, but says {found.epsilon}")
    for other in left:  # what only the server saw
        expect(other.epsilon is None, f"nothing opened stands behind the disclosure of {other.what}")
        expect(other.to == "server", f"{other.to} saw {other.what}, which no opening holds")


def check_same(first: Result, second: Result) -> None:
    """Two simulations with one seed, which must be equal; but quotients under encryption only up to their error."""
    computed = any(opened.form is not None for opened in first.opened)
    names = ("disclosures", "dropped", *(() if computed else ("opened", "config", "notes", "statement")))
    differing = [name for name in names if getattr(first, name) != getattr(second, name)]
    for one, other in zip(first.opened, second.opened, strict=True):
        for block, values in one.blocks.items():
            if np.abs(np.array(values) - other.blocks[block]).max() > (_QUOTIENT_ERROR if one.form is not None else 0):
                differing.append(f"opening of '{one.query}'")
    expect(not differing, f"a simulation with one seed must repeat itself, but its {', '.join(differing)} differ")


def check_no_trace(first: Result, failed: Result) -> None:
    """Two results of which one has a client that failed: equal in all that does not follow from the noisy openings."""
    one, other = _visible(first), _visible(failed)
    differing = [name for name in one if one[name] != other[name]]
    expect(not differing, f"a client that fails must leave no trace, but it shows in {differing}")


def _visible(result: Result) -> dict[str, Any]:
    """A result without its noisy values and what was computed from them, which `verify` computes again.

    Sizes stay: how many openings, values and answers there are, and everybody's name. But how many answers to tests are
    given, how large a second query is, and so the bytes sent, may follow from what was opened before.
    """
    raw = result.to_json()
    for name in ("run", "config", "index", "notes", "statement"):
        del raw[name]
    if raw["ledger"] is not None:
        del raw["ledger"]["id"]  # drawn when it was made
    for node in raw["clients"]["nodes"]:
        del node["key"]  # made with its home
    followed = len(result.opened) > 1 or ANSWERS in result.opened[0].blocks
    raw["opened"] = [(o.query, o.noise_variance, o.answered, o.own, o.form) for o in result.opened]
    raw["opened"] += [] if followed else [_lengths(o) for o in result.opened]
    raw["disclosures"] = [replace(d, shape=()) if followed else d for d in result.disclosures]
    traffic = dict(result.traffic or {})
    if followed:
        traffic.pop("bytes")
    return {**raw, "traffic": traffic}


def check_exact(
    result: Result,
    replay: Replay,
    probed: Callable[[Sequence[Query]], Result],
    summed: Callable[[Query], IntArray],
) -> None:
    """Without epsilon a seal opens the very sums that clients would send in the clear, or their very winner.

    Not compared: clients' own answers, which are opened in the clear as they are; and queries of agents whose answers
    depend on coins of their own, and so differ from run to run: those carry the run's id.

    Args:
        result: of the run.
        replay: its decision once more.
        probed: opens the sums of queries in the clear.
        summed: the sum that a query would have, where it is never opened.
    """
    expect(all(opened.noise_variance == 0 for opened in result.opened), "without epsilon there must be no noise")
    agents = any(query.own_run is not None for query in replay.queries)
    if result.seal.shows_each or agents:
        return
    pairs = list(zip(replay.queries, result.opened, strict=True))
    for query, opened in pairs:
        if ANSWERS in opened.blocks:
            winner = int(np.argmax(summed(query)))
            expect(opened.blocks[ANSWERS] == [winner], f"the winner of '{query.name}' must be exact")
    sums = [(query, opened) for query, opened in pairs if ANSWERS not in opened.blocks]
    if sums:
        clear = probed([query for query, _ in sums])
        for (_, opened), known in zip(sums, clear.opened, strict=True):
            _check_sum(opened, known)


def _check_sum(opened: Opened, clear: Opened) -> None:
    """An opened sum, or a form of it, against the sum in the clear."""
    form = form_from_json(opened.form)
    if form is None:
        expect(opened.blocks == clear.blocks, f"the sum of '{opened.query}' must be exact: {asdict(opened)['blocks']}")
        return
    wanted = form.of({name: np.array(values) for name, values in clear.blocks.items()})
    error = float(np.abs(np.array(opened.blocks[form.block]) - wanted).max())
    limit = _QUOTIENT_ERROR if form.over is not None else 0.0
    expect(error <= limit, f"'{opened.query}', {form.words}: an error of {error:.3g}, more than {limit}")
