"""What commands print."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hushtune.bench import machine
from hushtune.choosing import ChoicePlan
from hushtune.federation.local import default_home
from hushtune.planning import Plan
from hushtune.privacy.accounting import Budget, rule_to_json
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.registry import event_to_json
from hushtune.result import Result
from hushtune.sharing import HEARD, SharingPlan
from hushtune.simulation import figure_rows
from hushtune.verification import Check


@contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """Sends what a user's objective prints to the error stream, so that the output is the result alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def result(outcome: Result, report: Path, as_json: bool) -> None:
    """The outcome of a run."""
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    print(f"chosen config: {outcome.config}")
    if outcome.simulation is not None and outcome.simulation["figures"] is not None:
        _figures(outcome.simulation["figures"])
    print(f"\nPrivacy statement\n{outcome.statement}")
    print(f"\nresult: {report.parent / 'result.json'}   report: {report}   check it: hushtune verify {report.parent}")
    if outcome.privacy is not None and outcome.simulation is None:
        print(f"a client whose scoring failed says so in its own log only: {default_home()}/clients/*/client.log")


def _figures(figures: dict[str, Any]) -> None:
    print("\nSimulation figures, such as test scores. A real run cannot know and does not show them.")
    for name, value in figure_rows(figures):
        print(f"  {name:46} {value:.3f}")


def plan(found: Plan, as_json: bool) -> None:
    """What to expect of a run."""
    if as_json:
        print(json.dumps(found.to_json()))
        return
    privacy, model = found.privacy, found.agreement
    each = f", each with {found.voters} voters" if found.voters > 1 else ""
    print(found.verdict)
    print(
        f"\nSetting: {found.clients} clients{each}, {found.candidates} candidates, {found.k} votes per ballot; "
        f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g} per {privacy.unit}, {privacy.neighbours}; "
        f"seal '{found.seal['name']}'"
    )
    print(
        f"Noise: standard deviation {found.sigma:.2f} at the least, {found.noise:.2f} if everybody answers; the "
        f"loudest among the candidates about {found.loudest:.0f}"
    )
    smooth = "not simulated" if found.smooth is None else f"{found.smooth:.2f}"
    print(
        f"Odds of a good choice, if {model.good} candidates are good and voters' losses have standard deviation "
        f"{model.overlap:g} (good 0, bad 1):\n"
        f"  decode=argmax {found.success:.3f}   decode=smooth {smooth}   guessing {found.guess:.3f}   "
        f"at least (Theorem V.1) {found.bound:.3f}"
    )
    print(f"Votes per ballot, decode=argmax; the best is k = {found.best_k}:")
    for odds in found.by_k:
        print(f"  k = {odds.k:<4} noise {odds.sigma:8.2f}   odds {odds.success:.3f}")
    print("What else would give:")
    for odds in found.instead:
        print(f"  {odds.what:38} noise {odds.sigma:8.2f}   odds {odds.success:.3f}")
    print(f"Traffic of a client: {found.messages:.1f} messages, about {found.bytes:,} bytes, both ways together")
    cost, rule = found.charge, found.charge["rule"]["name"]
    print(f"The run alone costs {_text(cost)} (rule '{rule}')")
    if found.ledger is not None:
        print(_books(found.ledger))


def sharing(found: SharingPlan, as_json: bool) -> None:
    """What to expect of a run in which agents share what their models have learned."""
    if as_json:
        print(json.dumps(found.to_json()))
        return
    privacy, method = found.privacy, found.method
    print(found.verdict)
    print(
        f"\nSetting: {found.clients} clients, {method['rounds']} openings in {method['iterations']} iterations, "
        f"P = {method['regions']}, {method['features']} features, rate {method['rate']:g}; epsilon "
        f"{privacy.epsilon:g}, delta {privacy.delta:g} per {privacy.unit}, {privacy.neighbours}; "
        f"seal '{found.seal['name']}'"
    )
    print(f"Noise: {found.multiplier:.2f} times the largest that one agent contributes, on every entry")
    print(
        f"Signal left (cosine), if the mean of the agents' vectors is {found.agreement:g} as long as one may be:\n"
        f"  after the first opening {found.first:.3f}   in the end {found.last:.3f}"
    )
    if found.enough is not None:
        print(f"Agents hear each other (cosine {HEARD:g}) from about {found.enough:,} clients on, with the same noise")
    print("What else would give:")
    for other in found.instead:
        print(f"  {other.what:38} noise {other.multiplier:8.2f}   signal left {other.cosine:.3f}")
    cost, rule = found.charge, found.charge["rule"]["name"]
    beside = f"; by Rényi divergences epsilon {cost['renyi']:.4g}" if math.isfinite(cost["renyi"]) else ""
    print(f"The run alone costs {_text(cost)} (rule '{rule}'){beside}")
    if found.ledger is not None:
        print(_books(found.ledger))


def choice(found: ChoicePlan, as_json: bool) -> None:
    """What to expect of a trusted curator's tests."""
    if as_json:
        print(json.dumps(found.to_json()))
        return
    privacy, method, chance = found.privacy, found.method, found.chance
    print(found.verdict)
    tests = ""
    if "granularity" in method:
        tests = f", g = {method['granularity']:g}, u0 = {method['start']:g}, at most {found.tests} tests"
    print(
        f"\nSetting: {method['name']}, {found.units} units, {found.candidates} candidates{tests}; epsilon "
        f"{privacy.epsilon:g}, delta {privacy.delta:g} per {privacy.unit}, {privacy.neighbours}; seal 'curator'"
    )
    print(
        f"One test has epsilon {chance.epsilon0:.4g}: noise of scale {chance.noise:.3g} on mean scores from "
        f"{0.95 - found.spread:.2g} to 0.95"
    )
    if tests:
        print(f"Simulated runs make {found.made:.1f} tests on average; {found.nothing:.1%} choose nothing")
    print("What else would give:")
    for other in found.instead:
        print(f"  {other.what:28} noise {other.noise:8.3g}   below the best {other.gap:.3f}   gain {other.gain:4.0%}")
    cost, rule = found.charge, found.charge["rule"]["name"]
    print(f"The run alone costs {_text(cost)} (rule '{rule}')")
    if found.ledger is not None:
        print(_books(found.ledger))


def _books(books: dict[str, Any]) -> str:
    if not books["exists"]:
        return f"{books['path']} does not exist: the run would make it, with {_text(books['limit'])} as its limit"
    verdict = f"the run would be REFUSED: {books['reason']}"
    if books["allowed"]:
        verdict = f"with the run it would have spent {_text(books['after'])} (rule '{books['rule']['name']}')"
    return f"{books['path']}: limit {_text(books['limit'])}; left {_text(books['left'])}; {verdict}"


def checks(found: Sequence[Check], as_json: bool) -> None:
    """The outcome of a verification."""
    if as_json:
        print(json.dumps({"holds": all(c.holds for c in found), "checks": [asdict(c) for c in found]}))
        return
    for check in found:
        print(f"{'ok  ' if check.holds else 'FAIL'} {check.claim}: {check.detail}")


def _pair(budget: Budget | None) -> dict[str, float] | None:
    return asdict(budget) if budget is not None else None


def _text(pair: dict[str, float] | None) -> str:
    return f"epsilon {pair['epsilon']:.4g}, delta {pair['delta']:.3g}" if pair is not None else "none"


def _facts(ledger: Ledger) -> dict[str, Any]:
    terms = ledger.terms()
    return {
        "path": str(ledger.path),
        "unit": terms.unit,
        "neighbours": terms.neighbours,
        "rule": rule_to_json(terms.rule),
        "limit": _pair(ledger.limit()),
        "spent": _pair(ledger.spent()),
        "left": _pair(ledger.left()),
        "charges": [
            {
                "run": entry.charge.run,
                "what": entry.charge.what,
                "made": datetime.fromtimestamp(entry.made, UTC).isoformat(timespec="seconds"),
                "delta": entry.charge.delta,
                "events": [event_to_json(event) for event in entry.charge.events],
                "opened": entry.opened,
                "exact": entry.charge.exact,
            }
            for entry in ledger.entries()
        ],
    }


def ledgers(found: Sequence[Ledger], home: Path, as_json: bool) -> None:
    """The content of ledgers: one in full, several as a list."""
    facts = [_facts(ledger) for ledger in found]
    if as_json:
        print(json.dumps({"ledgers": facts}))
        return
    if not facts:
        print(f"no ledgers under {home}")
    for fact in facts:
        print(
            f"{fact['path']}\n  per {fact['unit']}, {fact['neighbours']}, rule {fact['rule']['name']}, "
            f"{len(fact['charges'])} runs\n  limit {_text(fact['limit'])}; spent {_text(fact['spent'])}; "
            f"left {_text(fact['left'])}"
        )
        for charge in fact["charges"] if len(facts) == 1 else []:
            state = "opened" if charge["opened"] else "reserved"
            exact = "  WITHOUT epsilon" if charge["exact"] else ""
            print(f"  {charge['made']}  {charge['run'][:8]}  {state:8}  {charge['what']}{exact}")


def rows(found: Iterable[dict[str, Any]], as_json: bool, hidden: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The rows of a benchmark, as they come, or one object with all of them. Gives them back.

    Some of a row's values may be too long for a line: they are `hidden` there.
    """
    kept = []
    for row in found:
        kept.append(row)
        if not as_json:
            print("  ".join(f"{name}={value}" for name, value in row.items() if name not in hidden), flush=True)
    if as_json:
        print(json.dumps({"machine": machine(), "rows": kept}))
    return kept


def experiment(found: Iterable[dict[str, Any]], as_json: bool) -> list[dict[str, Any]]:
    """The rows of the DP-HYPE experiments as tables, each as soon as it is there, or as JSON. Gives them back."""
    from hushtune.bench.dp_hype import ratios

    kept: list[dict[str, Any]] = []
    for row in found:
        kept.append(row)
        if as_json:
            continue
        if row["arm"] == "federation":
            shown = {name: value for name, value in row.items() if name not in ("arm", "accuracies")}
            print("\n" + "  ".join(f"{name}={value}" for name, value in shown.items()), flush=True)
        else:
            interval = f"{row['accuracy']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
            print(f"  {row['arm']:32} epsilon {row['epsilon']!s:5} noise {row['sigma']:8.2f}  {interval}", flush=True)
    compared = ratios(kept)
    if as_json:
        print(json.dumps({"machine": machine(), "rows": kept, "ratios": compared}))
    for row in compared if not as_json else []:
        more = " at least" if row["at least"] else ""
        print(
            f"{row['name']}: {row['accuracy']:.3f} needs epsilon {row['epsilon published']:g} as published and "
            f"{row['epsilon ours']:g} by default:{more} {row['budget ratio']:g} times"
        )
    return kept
