"""What is lost from a ledger is noticed, and the owner is told what to do."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import distance
from tests.federation.harness import Wire

import hushtune as ht
from hushtune.privacy.accounting import Budget, epsilon_of
from hushtune.privacy.anchor import Anchor, State
from hushtune.privacy.charges import Charge
from hushtune.privacy.events.sums import SkellamShift

EVENT = SkellamShift(400.0, 2)  # cheap to account for
COST = epsilon_of((EVENT,), 1e-6)
CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
REMEDY = "hushtune ledger limit {} --epsilon E --delta D --accept-loss"


def charge(run: str) -> Charge:
    return Charge(run, "test", (EVENT,), 1e-6, "client", "replace-one")


@pytest.fixture
def ledger(tmp_path: Path) -> ht.Ledger:
    """Two charges and three answers."""
    made = ht.Ledger.new(tmp_path / "ledger.db", epsilon=10 * COST, delta=1e-4)
    made.commit(charge("r1"), "r1", "0", b"request", b"reply", [("asked", b"question", b"")])
    made.commit(charge("r2"), "r2", "0", b"request", b"reply")
    return made


USES: dict[str, Callable[[ht.Ledger], Any]] = {
    "terms": lambda ledger: ledger.terms(),
    "limit": lambda ledger: ledger.limit(),
    "entries": lambda ledger: ledger.entries(),
    "spent": lambda ledger: ledger.spent(),
    "left": lambda ledger: ledger.left(),
    "set_limit": lambda ledger: ledger.set_limit(9.0, 1e-4),
    "ensure": lambda ledger: ledger.ensure(ht.Privacy(1.0)),
    "check": lambda ledger: ledger.check(charge("r3")),
    "reserve": lambda ledger: ledger.reserve(charge("r3")),
    "answered": lambda ledger: ledger.answered("r1", "0", b"request"),
    "knows": lambda ledger: ledger.knows("r1"),
    "commit": lambda ledger: ledger.commit(charge("r3"), "r3", "0", b"request", b"reply"),
    "mark_opened": lambda ledger: ledger.mark_opened("r1"),
}


def refused(ledger: ht.Ledger, what: str) -> None:
    """Whatever is done with it, by itself or over one connection: one line with what is wrong and what to do."""
    for use in USES.values():
        with pytest.raises(ht.LedgerError) as caught:
            use(ht.Ledger(ledger.path))
        message = str(caught.value)
        assert what in message
        assert message.startswith(str(ledger.path))
        assert REMEDY.format(ledger.path) in message
        assert "\n" not in message
        assert "backup" not in message
    with ht.Ledger(ledger.path).connected() as connected:
        for _ in range(2):  # also when it is tried again
            with pytest.raises(ht.LedgerError):
                connected.spent()


def alter(ledger: ht.Ledger, *statements: str) -> None:
    with sqlite3.connect(ledger.path) as db:
        for statement in statements:
            db.execute(statement)
    db.close()


@pytest.mark.parametrize(
    ("statements", "what"),
    [
        (["DELETE FROM charges WHERE seq=2"], "it lacks 1 of 2 charges;"),
        (["DELETE FROM charges"], "it lacks 2 of 2 charges;"),
        (["DELETE FROM steps WHERE run='r1' AND step='0'"], "it lacks 1 of 3 answers;"),
        (["DELETE FROM charges WHERE seq=2", "DELETE FROM steps"], "it lacks 1 of 2 charges and 3 of 3 answers;"),
        (["UPDATE steps SET step='1' WHERE run='r2'"], "it was altered since it was last used;"),
        (["UPDATE steps SET request=x'00' WHERE run='r2'"], "it was altered since it was last used;"),
        (["UPDATE charges SET link='0' WHERE seq=2"], "it was altered since it was last used;"),
        (["UPDATE terms SET neighbours='zero-out'"], "it was altered since it was last used;"),
        (["UPDATE limits SET epsilon=100"], "it was altered since it was last used;"),
        (["UPDATE terms SET id='other'"], "another ledger was here"),
    ],
)
def test_rows_that_were_deleted_or_altered_are_refused(ledger: ht.Ledger, statements: list[str], what: str) -> None:
    alter(ledger, *statements)
    refused(ledger, what)


def test_an_older_copy_is_refused_and_the_newest_one_is_taken(ledger: ht.Ledger, tmp_path: Path) -> None:
    shutil.copy(ledger.path, tmp_path / "older")
    ledger.reserve(charge("r3"))
    shutil.copy(ledger.path, tmp_path / "newest")
    shutil.copy(tmp_path / "older", ledger.path)
    refused(ledger, "it lacks 1 of 3 charges;")
    shutil.copy(tmp_path / "newest", ledger.path)
    assert len(ledger.entries()) == 3


def test_a_ledger_that_vanished_is_never_made_anew(ledger: ht.Ledger) -> None:
    ledger.path.unlink()
    refused(ledger, "but it is gone, and with it the record of what was spent")
    for make in (lambda: ht.Ledger.new(ledger.path, 9.0, 1e-4), lambda: ledger.exists):
        with pytest.raises(ht.LedgerError, match="it is gone"):
            make()
    assert not ledger.path.exists()


def test_another_ledger_in_its_place_is_refused(ledger: ht.Ledger, tmp_path: Path) -> None:
    ht.Ledger.new(tmp_path / "fresh.db", 9.0, 1e-4).path.replace(ledger.path)
    refused(ledger, "another ledger was here, and what was spent then is not in this one")


def test_a_ledger_without_its_anchor_is_refused(ledger: ht.Ledger) -> None:
    """An old copy that was put back alone would otherwise pass for the newest."""
    Anchor(ledger.path).path.unlink()
    refused(ledger, "its anchor ledger.db.anchor is gone")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"{}", b'{"anchor": 1, "states": []}'])
def test_an_anchor_that_cannot_be_read_is_refused(ledger: ht.Ledger, content: bytes) -> None:
    Anchor(ledger.path).path.write_bytes(content)
    refused(ledger, "ledger.db.anchor must be what hushtune wrote beside the ledger, but it is damaged")


def test_an_anchor_of_a_later_format_is_refused(ledger: ht.Ledger) -> None:
    path = Anchor(ledger.path).path
    path.write_text(json.dumps({**json.loads(path.read_text()), "anchor": 2}))
    refused(ledger, "damaged")


def test_who_deletes_both_begins_anew(ledger: ht.Ledger) -> None:
    ledger.path.unlink()
    Anchor(ledger.path).path.unlink()
    assert not ledger.exists
    assert ledger.ensure(ht.Privacy(1.0))


def test_what_the_anchor_holds(ledger: ht.Ledger) -> None:
    (state,) = Anchor(ledger.path).read()
    with sqlite3.connect(ledger.path) as db:
        (link,) = db.execute("SELECT link FROM charges WHERE seq=2").fetchone()
    assert (state.ledger, state.charges, state.link, state.answers) == (ledger.terms().id, 2, link, 3)
    assert "reply" not in Anchor(ledger.path).path.read_text()


def test_what_changes_nothing_leaves_the_anchor_alone(ledger: ht.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[State, ...]] = []
    monkeypatch.setattr(Anchor, "write", lambda self, *states: written.append(states))
    ledger.spent()
    ledger.reserve(charge("r1"))
    ledger.commit(charge("r1"), "r1", "0", b"request", b"a second draw")
    ledger.mark_opened("r1")
    assert written == []


def test_a_limit_that_the_owner_sets_is_no_alteration(ledger: ht.Ledger) -> None:
    ledger.set_limit(99.0, 1e-3)
    assert ledger.limit() == Budget(99.0, 1e-3)


# ---- going on after a loss ---------------------------------------------------------------------------------


def test_an_owner_who_accepts_a_loss_keeps_what_is_left_of_the_ledger(ledger: ht.Ledger) -> None:
    alter(ledger, "DELETE FROM charges WHERE seq=2")
    ledger.set_limit(9 * COST, 1e-4, accept_loss=True)  # the missing run's cost is taken off
    assert [entry.charge.run for entry in ledger.entries()] == ["r1"]
    left = ledger.left()
    assert left is not None
    assert left.epsilon == pytest.approx(8 * COST)
    assert ledger.answered("r1", "0", b"request") == b"reply"
    ledger.reserve(charge("r3"))


@pytest.mark.parametrize("anchor", ["whole", "damaged", "gone"])
def test_an_owner_whose_ledger_is_gone_states_what_is_left(ledger: ht.Ledger, anchor: str) -> None:
    if anchor == "whole":
        ledger.path.unlink()
        made = ht.Ledger.new(ledger.path, 2 * COST, 1e-4, accept_loss=True)
    else:
        path = Anchor(ledger.path).path
        path.write_text("{") if anchor == "damaged" else path.unlink()
        ledger.set_limit(4 * COST, 1e-4, accept_loss=True)
        made = ledger
    left = made.left()
    assert left is not None
    assert left.epsilon == pytest.approx(2 * COST)
    with pytest.raises(ht.BudgetError):
        made.reserve(Charge("big", "test", (EVENT,) * 9, 1e-6, "client", "replace-one"))
    made.reserve(charge("r3"))


def test_accepting_a_loss_needs_entries_that_follow_on_each_other(ledger: ht.Ledger) -> None:
    alter(ledger, "DELETE FROM charges WHERE seq=1")
    with pytest.raises(ht.LedgerError, match=r"altered at entry 1; put back the newest file.*move this one away"):
        ledger.set_limit(1.0, 1e-4, accept_loss=True)
    refused(ledger, "it lacks 1 of 2 charges;")  # as before
    ledger.path.rename(ledger.path.with_suffix(".away"))
    ht.Ledger.new(ledger.path, COST, 1e-4, accept_loss=True).reserve(charge("r3"))


def test_accepting_a_loss_overwrites_no_ledger(ledger: ht.Ledger) -> None:
    with pytest.raises(ht.LedgerError, match="exists already"):
        ht.Ledger.new(ledger.path, 9.0, 1e-4, accept_loss=True)
    assert len(ledger.entries()) == 2


# ---- ledgers of release 0.1 --------------------------------------------------------------------------------


def test_a_ledger_of_release_0_1_is_trusted_once_and_watched_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shutil.copy(Path(__file__).with_name("ledger-0.1.sqlite"), path)
    ledger = ht.Ledger(path)
    assert len(ledger.entries()) == 1
    assert Anchor(path).read()[0].charges == 1
    shutil.copy(path, tmp_path / "copy")
    alter(ledger, "DELETE FROM charges")
    refused(ledger, "it lacks 1 of 1 charges;")
    shutil.copy(tmp_path / "copy", path)
    ledger.set_limit(9.0, 1e-4)
    shutil.copy(Path(__file__).with_name("ledger-0.1.sqlite"), path)  # as it was before it had an anchor
    refused(ledger, "it was altered since it was last used;")


# ---- runs --------------------------------------------------------------------------------------------------


def tune(home: Path, **settings: Any) -> ht.Result:
    clients = [ht.Client(([[0.0]] * 2, [0.5] * 2), distance, name=f"c{at}") for at in range(3)]
    known: dict[str, Any] = {"method": ht.Vote(1), "privacy": ht.Privacy(0.5), "observer": ht.Silent(), "jobs": 1}
    return ht.tune(clients, CANDIDATES, **{**known, "home": home, **settings})


@pytest.mark.parametrize("loss", ["vanished", "emptied"])
def test_a_client_in_this_process_whose_ledger_lost_something_refuses(tmp_path: Path, loss: str) -> None:
    tune(tmp_path)
    lost, ledgers = tmp_path / "clients" / "c1" / "ledger.db", list(tmp_path.glob("**/ledger*.db"))
    for path in ledgers:
        ht.Ledger(path).set_limit(9.0, 1e-4)
    lost.unlink() if loss == "vanished" else alter(ht.Ledger(lost), "DELETE FROM charges", "DELETE FROM steps")
    with pytest.raises(ht.AbortedError, match=r"the ledgers of 1 refuse; nothing was asked; c1: .*--accept-loss"):
        tune(tmp_path, seal=ht.Masked(dropouts=0.0))
    assert lost.exists() == (loss == "emptied")


@pytest.mark.parametrize("loss", ["vanished", "emptied"])
def test_a_client_on_its_own_machine_refuses_and_tells_the_server_no_path(tmp_path: Path, loss: str) -> None:
    wire = Wire(tmp_path)
    ledgers = [ht.Ledger.new(wire.ledger(at).path, 9.0, 1e-4) for at in range(wire.clients)]
    wire.tune()
    lost = ledgers[1]
    lost.path.unlink() if loss == "vanished" else alter(lost, "DELETE FROM charges", "DELETE FROM steps")
    ht.Ledger(next((tmp_path / "server" / "coordinator").glob("*.db"))).set_limit(9.0, 1e-4)
    result = wire.tune()
    assert result.dropped == {wire.nodes[1]: "refused: ledger: it cannot be used; see the client's own log"}
    log = (lost.path.parent / "client.log").read_text()
    assert REMEDY.format(lost.path) in log
    assert lost.path.exists() == (loss == "emptied")
    assert [len(ledger.entries()) for ledger in ledgers if ledger is not lost] == [2] * 4


def test_a_coordinators_ledger_that_vanished_is_not_made_anew(tmp_path: Path) -> None:
    tune(tmp_path)
    (coordinator,) = (tmp_path / "coordinator").glob("*.db")
    coordinator.unlink()
    with pytest.raises(ht.LedgerError, match="it is gone"):
        tune(tmp_path)
    assert not coordinator.exists()


def test_a_ledger_with_a_trigger_is_refused(tmp_path: Path) -> None:
    """A trigger could swallow charges."""
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 1.0, 1e-5)
    with closing(sqlite3.connect(ledger.path)) as db:
        db.execute("CREATE TRIGGER z BEFORE INSERT ON charges BEGIN SELECT RAISE(IGNORE); END")
        db.commit()
    with pytest.raises(ht.LedgerError, match="triggers or views, which no ledger has"):
        ledger.spent()
