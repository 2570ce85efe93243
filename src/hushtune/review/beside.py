"""What lies beside a result, and whether it says the same: run.json, report.html, result.sig, the ledger.

Each function gives what it saw, and the claims that follow. What is not there is no failure: a result may have been
copied alone. What is there and says otherwise is one.
"""

from __future__ import annotations

import hashlib
import math
import re
from pathlib import Path

from hushtune.core.errors import LedgerError, SettingError
from hushtune.core.words import as_set, counted, up
from hushtune.privacy.accounting import Budget, rule_to_json
from hushtune.privacy.charges import Charge, Terms, charge_of, left_of, total_of
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.ledger_rows import Entry
from hushtune.review.checks import Beside, Check
from hushtune.run import signature
from hushtune.run.folder import FILE as RUN
from hushtune.run.folder import Records, digest, records
from hushtune.run.result import LedgerNote, Result

REPORT = "report.html"
LEDGER = "ledger"
_TAG = "hushtune-result"
_TAGS = re.compile(rf'<meta name="{_TAG}" content="sha256:([0-9a-f]{{64}})">')
_CLOSE = 1e-6  # relative: another release of a library may compute an epsilon a little differently

Seen = tuple[Beside, list[Check]]


def digest_of(content: bytes) -> str:
    """The digest of a result.json by which a report says what it was made from."""
    return hashlib.sha256(content).hexdigest()


def digest_tag(sha256: str) -> str:
    """The tag in a report's head that says which result.json it was made from."""
    return f'<meta name="{_TAG}" content="sha256:{sha256}">\n'


# ---- run.json ----------------------------------------------------------------------------------------


def recorded(folder: Path, result: Result) -> Seen:
    """What the run wrote down as it went."""
    try:
        found = records(folder)
    except SettingError as error:
        return Beside(RUN, True, "damaged"), [Check("run.json is whole", False, str(error))]
    if found is None:
        return Beside(RUN, False, f"not in {folder}"), []
    return Beside(RUN, True, counted(len(found.opened), "opening")), _agree(found, result)


def _agree(found: Records, result: Result) -> list[Check]:
    opened = [step for step, _, _ in found.opened]
    dropped = {client: why for _, missing, _ in found.opened for client, why in missing.items()}
    late = {client: why for _, _, lost in found.opened for client, why in lost.items()}
    others = [name for name, value in _settings(result).items() if found.settings.get(name) != digest(value)]
    return [
        Check("run.json is of this run", found.run == result.run, f"{result.run} here, {found.run} there"),
        Check(
            "run.json has the same openings",
            opened == result.opened,
            f"{len(result.opened)} here, {len(opened)} there",
        ),
        Check(
            "run.json names the same clients as missing or out of reach",
            (dropped, late) == (result.dropped, result.late),
            f"{len(result.dropped)} and {len(result.late)} here, {len(dropped)} and {len(late)} there",
        ),
        Check(
            "run.json was made for the same settings",
            not others,
            f"others: {', '.join(others)}" if others else f"{len(_settings(result))} compared, by their digests",
        ),
    ]


def _settings(result: Result) -> dict[str, object]:
    """What the run was begun with, as far as the result says it. One that was shortened says other things."""
    begun: dict[str, object] = {
        "candidates": result.candidates.to_json(),
        "seal": result.seal.to_json(),
        "search": result.search.to_json(),
        "seed": result.simulation["seed"] if result.simulation is not None else None,
    }
    if result.ledger is None or result.ledger.wanted is None:
        begun |= {"method": result.method.to_json(), "privacy": result.privacy and result.privacy.to_json()}
    return begun


# ---- report.html and result.sig ----------------------------------------------------------------------


def reported(folder: Path, content: bytes) -> Seen:
    """Whether the report was made from this very result.json."""
    try:
        tags = _TAGS.findall((folder / REPORT).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Beside(REPORT, False, f"not in {folder}"), []
    except (OSError, ValueError):
        tags = []
    carries = f"digest {tags[0][:16]}..." if tags else "no digest"
    check = Check(
        "report.html was made from this result.json",
        tags == [digest_of(content)],
        f"it carries {carries}, {digest_of(content)[:16]}... expected; `hushtune report` writes it anew",
    )
    return Beside(REPORT, True, f"carries {carries}"), [check]


def signed(folder: Path, content: bytes, signer: bytes | None) -> Seen:
    """Whether a signature is there, by whom, and whether it is one of these very bytes."""
    try:
        found = signature.read(folder)
    except (SettingError, OSError) as error:
        return Beside(signature.FILE, True, "damaged"), [Check("result.sig is whole", False, str(error))]
    if found is None:
        wanted = [] if signer is None else [Check("the result is signed", False, f"no {signature.FILE} in {folder}")]
        return Beside(signature.FILE, False, f"not in {folder}"), wanted
    holds, key = found.holds(content), found.public.hex()
    checks = [Check("the signature is one of this result.json", holds, f"by {key}")]
    if signer is not None:
        checks.append(Check("it is the signer's", found.public == signer, f"by {key}, {signer.hex()} wanted"))
    return Beside(signature.FILE, True, f"by {key}, which {'holds' if holds else 'does NOT hold'}"), checks


# ---- the coordinator's ledger ------------------------------------------------------------------------


def charged(result: Result, given: Ledger | None, home: Path) -> Seen:
    """Whether the ledger that the result names has the run's charge, and keeps to its limit."""
    note = result.ledger
    if given is not None and not given.path.exists() and not given.path.with_name(f"{given.path.name}.anchor").exists():
        why = f"{given.path} does not exist; give the coordinator's ledger, or none, to have it looked for under {home}"
        return Beside(LEDGER, False, str(given.path)), [Check("the ledger can be read", False, why)]
    if note is None:
        if given is not None:
            return _free(result, given)
        return Beside(LEDGER, False, "not looked for: a simulation charges none"), []
    ledger = given if given is not None else _named(note.id, result.run, home)
    if ledger is None:
        return Beside(LEDGER, False, f"no ledger {note.id} under {home}"), []
    try:
        with ledger.connected() as books:
            terms, entries, limits = books.terms(), books.entries(), books.limits()
            checks = [*_entered(result, note, terms, entries), *_within(note, terms, entries, limits)]
    except LedgerError as error:
        return Beside(LEDGER, True, str(ledger.path)), [Check("the ledger can be read", False, str(error))]
    return Beside(LEDGER, True, f"{ledger.path}, {counted(len(entries), 'run')}"), checks


def _free(result: Result, ledger: Ledger) -> Seen:
    """A simulation must not be in a ledger."""
    try:
        charges = [entry.charge for entry in ledger.entries()]
    except LedgerError as error:
        return Beside(LEDGER, True, str(ledger.path)), [Check("the ledger can be read", False, str(error))]
    check = Check(
        "the ledger has no charge for a simulation",
        result.run not in [charge.run for charge in charges],
        counted(len(charges), "run"),
    )
    return Beside(LEDGER, True, str(ledger.path)), [check]


def _named(identity: str, run: str, home: Path) -> Ledger | None:
    """The ledger with this id, wherever it lies under the home folder; else a coordinator's that knows the run."""
    knows = None
    for path in sorted(home.glob("**/ledger*.db")):
        try:
            if Ledger(path).terms().id == identity:
                return Ledger(path)
            if path.parent.name == "coordinator" and run in [entry.charge.run for entry in Ledger(path).entries()]:
                knows = Ledger(path)
        except LedgerError:
            continue  # another one that is damaged; the one that is looked for would bear the id
    return knows


def _entered(result: Result, note: LedgerNote, terms: Terms, entries: list[Entry]) -> list[Check]:
    charge = charge_of(result.run, "run", result.events, result.privacy)
    places = [at for at, entry in enumerate(entries) if entry.charge.run == result.run]
    entry = entries[places[0]] if places else None
    checks = [
        Check("it is the ledger that the result names", terms.id == note.id, f"{note.id} here, {terms.id} there"),
        Check(
            "the ledger adds up charges by the same rule",
            note.rule == terms.rule.name and (result.privacy is None or terms.rule == result.rule),
            f"{rule_to_json(result.rule)} here, {rule_to_json(terms.rule)} there",
        ),
        Check(
            "the ledger has this run's charge: the same events, delta, unit and relation",
            entry is not None and entry.charge == charge,
            "no charge for this run" if entry is None else f"{len(entry.charge.events)} events on record",
        ),
    ]
    if entry is not None:
        checks.append(
            Check(
                "the ledger says that something was opened, if something was",
                entry.opened or not result.opened,
                "opened" if entry.opened else "reserved only",
            )
        )
        checks.append(_noted(result, note, terms, [entry.charge for entry in entries], places[0]))
    return checks


def _noted(result: Result, note: LedgerNote, terms: Terms, charges: list[Charge], place: int) -> Check:
    """What the result says about the ledger is what it said when the run was over; others may have followed."""
    then, limit = charges[: note.runs], note.limit or Budget(0.0, 0.0)
    others = [charge for charge in then if charge.run != result.run]
    same = (
        place < note.runs <= len(charges)
        and note.exact == sum(charge.exact for charge in then)
        and _close(note.before, total_of(terms, others, limit))
        and _close(note.spent, total_of(terms, then, limit))
        and _close(note.left, left_of(terms, then, limit) if note.limit is not None else None)
    )
    return Check(
        "what the result says about the ledger follows from its charges",
        same,
        f"charge {place + 1} of {len(charges)}; {note.runs} on record when the run was over",
    )


def _within(note: LedgerNote, terms: Terms, entries: list[Entry], limits: list[Budget]) -> list[Check]:
    """Charges with an epsilon stay within a limit that the ledger had; its owner may have lowered it since."""
    charges = [entry.charge for entry in entries]
    had = limits or [Budget(0.0, 0.0)]
    return [
        Check(
            "the limit that the result names is one that the ledger had",
            note.limit in limits if note.limit is not None else all(charge.exact for charge in charges[: note.runs]),
            f"{_pair(note.limit)} here, {counted(len(limits), 'limit')} there",
        ),
        Check(
            "the run kept to that limit",
            note.limit is None or _fits(total_of(terms, charges[: note.runs], note.limit), note.limit),
            f"({up(note.spent.epsilon, 6)}, {up(note.spent.delta)}) when it was over",
        ),
        Check(
            "all charges together keep to a limit that the ledger had",
            any(_fits(total_of(terms, charges, limit), limit) for limit in had),
            f"{counted(len(charges), 'charge')}, {counted(len(limits), 'limit')}, now {_pair(had[-1])}",
        ),
    ]


def _pair(limit: Budget | None) -> str:
    return "none" if limit is None else f"({as_set(limit.epsilon)}, {as_set(limit.delta)})"


def _fits(total: Budget, limit: Budget) -> bool:
    return total.epsilon <= limit.epsilon * (1 + _CLOSE) and total.delta <= limit.delta * (1 + _CLOSE)


def _close(one: Budget | None, other: Budget | None) -> bool:
    if one is None or other is None:
        return one is other
    pairs = ((one.epsilon, other.epsilon), (one.delta, other.delta))
    return all(math.isclose(a, b, rel_tol=_CLOSE, abs_tol=1e-12) for a, b in pairs)
