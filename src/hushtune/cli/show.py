"""What commands print: tables, ledgers and results, as text or as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hushtune.cli.options import budget_text, print_json
from hushtune.core.errors import LedgerError
from hushtune.core.words import as_set, counted, down
from hushtune.federation.local import default_home
from hushtune.privacy.accounting import Budget, rule_to_json
from hushtune.privacy.events.registry import event_to_json
from hushtune.privacy.ledger import Ledger
from hushtune.review.verification import Verification
from hushtune.run.result import Result
from hushtune.run.simulation import figure_rows


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
        print_json(outcome.to_json())
        return
    print(f"chosen config: {outcome.config}")
    if outcome.simulation is not None and outcome.simulation["figures"] is not None:
        _figures(outcome.simulation["figures"])
    print(f"\nPrivacy statement\n{outcome.statement}")
    print(f"\nresult: {report.parent / 'result.json'}   report: {report}   check it: hushtune verify {report.parent}")
    if outcome.privacy is not None and outcome.simulation is None:
        print(f"if scoring failed at a client, only its own log says so: {default_home()}/clients/*/client.log")


def _figures(figures: dict[str, Any]) -> None:
    print("\nSimulation figures, such as test scores. A real run cannot know and does not show them.")
    for name, value in figure_rows(figures):
        print(f"  {name:46} {value:.3f}")


def verification(found: Verification, as_json: bool) -> None:
    """The outcome of a verification: a line for each claim, what lay beside the result, and a line that sums up."""
    if as_json:
        print_json({"holds": found.holds, **asdict(found)})
        return
    for check in found:
        print(_one_line(f"{'ok  ' if check.holds else 'FAIL'} {check.claim}: {check.detail}"))
    for beside in found.beside:
        print(_one_line(f"{'saw' if beside.found else 'NOT FOUND'} {beside.name}: {beside.detail}"))
    wrong = sum(not check.holds for check in found)
    if wrong:
        print(f"{wrong} of {counted(len(found), 'claim')} {'does' if wrong == 1 else 'do'} NOT hold: see FAIL above")
    else:
        print(f"all {counted(len(found), 'claim')} hold")


def _one_line(text: str) -> str:
    """What a file says must not look like a line of ours, nor move a terminal's cursor."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _pair(budget: Budget | None) -> dict[str, float] | None:
    return asdict(budget) if budget is not None else None


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
    """The content of ledgers: one in full, several as a list. Raises LedgerError at the end if one cannot be used."""
    facts = [_facts(found[0])] if len(found) == 1 else [_facts_or_refusal(ledger) for ledger in found]
    if as_json:
        print_json({"ledgers": facts})
    elif facts:
        _list(facts)
    else:
        print(f"no ledgers under {home}")
    if refused := sum("refused" in fact for fact in facts):
        raise LedgerError(f"{refused} of {len(facts)} ledgers cannot be used; see the list")


def _facts_or_refusal(ledger: Ledger) -> dict[str, Any]:
    """Of one ledger among others: one that cannot be used does not hide the rest."""
    try:
        return _facts(ledger)
    except LedgerError as error:
        return {"path": str(ledger.path), "refused": str(error)}


def _list(facts: list[dict[str, Any]]) -> None:
    for fact in facts:
        if "refused" in fact:
            print(f"{fact['path']}\n  REFUSED: {fact['refused']}")
            continue
        print(
            f"{fact['path']}\n  per {fact['unit']}, {fact['neighbours']}, rule {fact['rule']['name']}, "
            f"{counted(len(fact['charges']), 'run')}\n"
            f"  limit {budget_text(fact['limit'], as_set)}; spent {budget_text(fact['spent'])}; "
            f"left {budget_text(fact['left'], down)}"
        )
        for charge in fact["charges"] if len(facts) == 1 else []:
            state = "opened" if charge["opened"] else "reserved"
            exact = "  WITHOUT epsilon" if charge["exact"] else ""
            print(f"  {charge['made']}  {charge['run'][:8]}  {state:8}  {charge['what']}{exact}")


def limit(ledger: Ledger, made: bool, as_json: bool) -> None:
    """A ledger whose limit was set."""
    facts = _facts(ledger)
    if as_json:
        print_json({"made": made, **facts})
        return
    counts = f", per {facts['unit']}, neighbours '{facts['neighbours']}'"
    what = f"made {facts['path']}{counts}, with limit" if made else f"limit of {facts['path']}{counts}, is now"
    left = (
        ""
        if made
        else f"; left: {budget_text(facts['left'], down) if facts['left'] else budget_text(facts['limit'], as_set)}"
    )
    print(f"{what} {budget_text(facts['limit'], as_set)}{left}")
