"""What `hushtune plan` prints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hushtune.cli.options import print_json
from hushtune.cli.show import budget_text
from hushtune.methods.propose_test.plan import ChoicePlan
from hushtune.methods.thompson.plan import HEARD, SharingPlan
from hushtune.methods.vote.plan import Plan
from hushtune.privacy.guarantee import Privacy


def show(found: Plan | SharingPlan | ChoicePlan, as_json: bool) -> None:
    """What to expect of a run: the verdict, what it follows from, what else would give, what it costs."""
    if as_json:
        print_json(found.to_json())
        return
    print(f"{found.verdict}\n")
    lines = (
        _vote(found)
        if isinstance(found, Plan)
        else _thompson(found)
        if isinstance(found, SharingPlan)
        else _tests(found)
    )
    for line in lines:
        print(line)
    beside = ""
    if math.isfinite(renyi := found.charge.get("renyi", math.inf)):
        beside = f"; by Rényi divergences epsilon {renyi:.4g}"
    print(f"The run alone costs {budget_text(found.charge)} (rule '{found.charge['rule']['name']}'){beside}")
    if found.ledger is not None:
        print(_books(found.ledger))


def _guarantee(privacy: Privacy) -> str:
    return f"epsilon {privacy.epsilon:g}, delta {privacy.delta:g} per {privacy.unit}, {privacy.neighbours}"


def _vote(found: Plan) -> Iterator[str]:
    model = found.agreement
    each = f", each with {found.voters} voters" if found.voters > 1 else ""
    yield (
        f"Setting: {found.clients} clients{each}, {found.candidates} candidates, {found.k} votes per ballot; "
        f"{_guarantee(found.privacy)}; seal '{found.seal['name']}'"
    )
    yield (
        f"Noise: standard deviation {found.sigma:.2f} at the least, {found.noise:.2f} if everybody answers; the "
        f"loudest among the candidates about {found.loudest:.0f}"
    )
    smooth = "not simulated" if found.smooth is None else f"{found.smooth:.2f}"
    yield (
        f"Odds of a good choice, with {model.good} good of {found.candidates} candidates and voters' losses of "
        f"standard deviation {model.overlap:g} (good 0, bad 1):\n"
        f"  decode=argmax {found.success:.3f}   decode=smooth {smooth}   guessing {found.guess:.3f}   "
        f"at least (Theorem V.1) {found.bound:.3f}"
    )
    yield f"Votes per ballot, decode=argmax; the best is k = {found.best_k}:"
    for odds in found.by_k:
        yield f"  k = {odds.k:<4} noise {odds.sigma:8.2f}   odds {odds.success:.3f}"
    yield "What else would give:"
    for odds in found.instead:
        yield f"  {odds.what:38} noise {odds.sigma:8.2f}   odds {odds.success:.3f}"
    yield f"Traffic of a client: {found.messages:.1f} messages, about {found.bytes:,} bytes, both ways together"


def _thompson(found: SharingPlan) -> Iterator[str]:
    method = found.method
    yield (
        f"Setting: {found.clients} clients, {method['rounds']} openings in {method['iterations']} iterations, "
        f"P = {method['regions']}, {method['features']} features, rate {method['rate']:g}; "
        f"{_guarantee(found.privacy)}; seal '{found.seal['name']}'"
    )
    yield f"Noise: {found.multiplier:.2f} times the largest that one agent contributes, on every entry"
    yield (
        f"Signal left (cosine), if the mean of the agents' vectors is {found.agreement:g} as long as one may be:\n"
        f"  after the first opening {found.first:.3f}   in the end {found.last:.3f}"
    )
    if found.enough is not None:
        yield f"Agents hear each other (cosine {HEARD:g}) from about {found.enough:,} clients on, with the same noise"
    yield "What else would give:"
    for other in found.instead:
        yield f"  {other.what:38} noise {other.multiplier:8.2f}   signal left {other.cosine:.3f}"


def _tests(found: ChoicePlan) -> Iterator[str]:
    method, chance = found.method, found.chance
    tests = ""
    if "granularity" in method:
        tests = f", g = {method['granularity']:g}, u0 = {method['start']:g}, at most {found.tests} tests"
    yield (
        f"Setting: {method['name']}, {found.units} units, {found.candidates} candidates{tests}; "
        f"{_guarantee(found.privacy)}; seal 'curator'"
    )
    yield (
        f"One test has epsilon {chance.epsilon0:.4g}: noise of scale {chance.noise:.3g} on mean scores from "
        f"{0.95 - found.spread:.2g} to 0.95"
    )
    if tests:
        yield f"Simulated runs make {found.made:.1f} tests on average; {found.nothing:.1%} choose nothing"
    yield "What else would give:"
    for other in found.instead:
        yield f"  {other.what:28} noise {other.noise:8.3g}   below the best {other.gap:.3f}   gain {other.gain:4.0%}"


def _books(books: dict[str, Any]) -> str:
    if not books["exists"]:
        return f"{books['path']} does not exist: the run would make it, with {budget_text(books['limit'])} as its limit"
    verdict = f"the run would be REFUSED: {books['reason']}"
    if books["allowed"]:
        verdict = f"with the run it would have spent {budget_text(books['after'])} (rule '{books['rule']['name']}')"
    return f"{books['path']}: limit {budget_text(books['limit'])}; left {budget_text(books['left'])}; {verdict}"
