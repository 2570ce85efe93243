"""What is in a ledger's tables, read and written through a connection inside a transaction."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass

from hushtune.core.errors import LedgerError, RefusedError
from hushtune.privacy.accounting import Budget, rule_from_json
from hushtune.privacy.anchor import State
from hushtune.privacy.charges import Charge, Terms
from hushtune.privacy.events.registry import event_from_json, event_to_json

TABLES = """
CREATE TABLE terms (id TEXT, unit TEXT, neighbours TEXT, rule TEXT, renyi_order REAL, made REAL);
CREATE TABLE limits (seq INTEGER PRIMARY KEY, epsilon REAL, delta REAL, made REAL);
CREATE TABLE charges (seq INTEGER PRIMARY KEY, run TEXT UNIQUE, what TEXT, neighbours TEXT, delta REAL,
                      events TEXT, made REAL, link TEXT, opened INTEGER DEFAULT 0);
CREATE TABLE steps (run TEXT, step TEXT, request BLOB, reply BLOB, PRIMARY KEY (run, step)) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Entry:
    """A charge as the ledger keeps it.

    Args:
        charge: what the run costs.
        made: seconds since 1970.
        opened: whether what was reserved has been opened.
    """

    charge: Charge
    made: float
    opened: bool


class DamageError(LedgerError):
    """A ledger's tables cannot be read as they are. Says what is wrong; the file's name and what to do are added."""


def state_of(db: sqlite3.Connection) -> State:
    """What the anchor must know. It covers which requests were answered, and not the text of the replies."""
    (charges,) = db.execute("SELECT count(*) FROM charges").fetchone()
    digest, answers = hashlib.sha256(), 0
    for table in ("terms", "limits"):
        digest.update(json.dumps(db.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()).encode() + b"\n")
    for run, step, request in db.execute("SELECT run, step, request FROM steps ORDER BY run, step"):
        digest.update(json.dumps([run, step, bytes(request).hex()]).encode() + b"\n")
        answers += 1
    return State(terms_of(db).id, charges, _last_link(db), answers, digest.hexdigest())


def _last_link(db: sqlite3.Connection) -> str:
    row = db.execute("SELECT link FROM charges ORDER BY seq DESC LIMIT 1").fetchone()
    return str(row[0]) if row is not None else ""


def link_of(before: str, content: Sequence[object]) -> str:
    """The digest of a charge and of all before it."""
    return hashlib.sha256(json.dumps([before, *content]).encode()).hexdigest()


def terms_of(db: sqlite3.Connection) -> Terms:
    """Unit, relation and rule."""
    rows = db.execute("SELECT id, unit, neighbours, rule, renyi_order, made FROM terms").fetchall()
    if len(rows) != 1:
        raise DamageError(f"a ledger must have one line of terms, but it has {len(rows)}")
    identity, unit, neighbours, rule, order, made = rows[0]
    return Terms(identity, unit, neighbours, rule_from_json({"name": rule, "order": order}), made)


def limit_of(db: sqlite3.Connection) -> Budget | None:
    """The limit in force; None if there is none yet."""
    row = db.execute("SELECT epsilon, delta FROM limits ORDER BY seq DESC LIMIT 1").fetchone()
    return Budget(*row) if row is not None else None


def put_limit(db: sqlite3.Connection, limit: Budget) -> None:
    """A limit from now on; earlier ones stay."""
    db.execute("INSERT INTO limits VALUES (NULL,?,?,?)", (limit.epsilon, limit.delta, time.time()))


def entries_of(db: sqlite3.Connection) -> list[Entry]:
    """All charges, oldest first; one that does not link on to those before it is refused."""
    link, unit = "", terms_of(db).unit
    entries: list[Entry] = []
    rows = db.execute(
        "SELECT run, what, neighbours, delta, events, made, link, opened FROM charges ORDER BY seq"
    ).fetchall()
    for *content, kept, opened in rows:
        link = link_of(link, content)
        if link != kept:
            raise DamageError(f"entries must follow on each other, but it was altered at entry {len(entries) + 1}")
        run, what, neighbours, delta, events, made = content
        parsed = tuple(event_from_json(event) for event in json.loads(events))
        entries.append(Entry(Charge(run, what, parsed, delta, unit, neighbours), made, bool(opened)))
    return entries


def put_charge(db: sqlite3.Connection, charge: Charge) -> None:
    """Adds a charge, linked to those before it."""
    content = [
        charge.run,
        charge.what,
        charge.neighbours,
        charge.delta,
        json.dumps([event_to_json(event) for event in charge.events]),
        time.time(),
    ]
    db.execute(
        "INSERT INTO charges (run, what, neighbours, delta, events, made, link) VALUES (?,?,?,?,?,?,?)",
        (*content, link_of(_last_link(db), content)),
    )


def answer_in(db: sqlite3.Connection, run: str, step: str, request: bytes) -> bytes | None:
    """The reply on record for this very request; None if the step was not answered yet."""
    row = db.execute("SELECT request, reply FROM steps WHERE run=? AND step=?", (run, step)).fetchone()
    if row is None:
        return None
    if row[0] != request:
        raise RefusedError(
            f"step '{step}' of this run was answered already, for another request; if it was interrupted right then, "
            "begin another one in a new folder"
        )
    return bytes(row[1])
