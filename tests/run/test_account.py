"""A run's books: what it says when it ends early, and whose ledgers it charges."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.harness import RUN, terms
from tests.watched import Watched

import hushtune as ht
from hushtune.core.identity import Identity
from hushtune.federation.base import Dropped
from hushtune.federation.local import LocalFederation
from hushtune.privacy.accounting import Budget
from hushtune.run.account import Account

CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=6)
ONCE = ht.Privacy(1.0)


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    return float(abs(config["x"] - data.y[0]))


def clients(count: int, **settings: Any) -> list[ht.Client]:
    return [ht.Client((np.zeros((4, 1)), np.full(4, 0.3)), distance, **settings) for _ in range(count)]


def tune(those: list[ht.Client], home: Path, method: Any = None, **settings: Any) -> ht.Result:
    given = {"privacy": ONCE, "home": home, "folder": home / "run", "jobs": 1, "observer": ht.Silent(), **settings}
    return ht.tune(those, CANDIDATES, method=method or ht.Vote(1), **given)


def spent(home: Path) -> list[float]:
    """By the coordinators' ledgers."""
    return [ht.Ledger(path).spent().epsilon for path in home.glob("coordinator/*.db")]


def test_an_abort_says_what_was_opened_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LocalFederation.exchange

    def exchange(self: Any, trip: Any, observer: Any) -> Mapping[str, Any]:
        replies = real(self, trip, observer)
        lost = 4 if trip.name.startswith("2 of 2") else 0
        return {id_: Dropped("no reply") if at < lost else reply for at, (id_, reply) in enumerate(replies.items())}

    monkeypatch.setattr(LocalFederation, "exchange", exchange)
    with pytest.raises(ht.AbortedError) as caught:
        tune(clients(12), tmp_path, ht.Combine("dbscan"), privacy=ht.Privacy(3.0))
    assert str(caught.value).endswith("; 1 of 2 openings had been made, and count as spent")
    assert "nothing was opened" not in str(caught.value)
    assert spent(tmp_path) == [pytest.approx(3.0, rel=1e-3)]


@pytest.mark.parametrize(
    ("failing", "error", "told"),
    [
        (
            "hushtune.run.terms.largest_sum",
            OSError,
            "No space left on device$",
        ),  # nobody was asked yet: the error as it is
        (
            "hushtune.run.opening.check_enough",
            ht.SpentError,
            "No space left on device; nothing was opened; see the ledgers$",
        ),
        ("hushtune.run.folder.RunFolder.keep", ht.SpentError, "1 of 1 openings had been made, and count as spent"),
    ],
)
def test_a_failure_after_the_cost_was_reserved_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, error: Any, told: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(failing, full)
    with pytest.raises(error, match=told):
        tune(clients(5), tmp_path)
    assert spent(tmp_path) == ([pytest.approx(1.0, rel=1e-3)] if error is ht.SpentError else [])


def test_a_client_keeps_its_ledger_however_many_others_there_are(tmp_path: Path) -> None:
    those = clients(11)
    tune(those, tmp_path)
    for others in (those[:10], those[:9], [*those, *clients(92)]):
        with pytest.raises(ht.AbortedError, match="ledgers of .* refuse"):
            tune(others, tmp_path, folder=tmp_path / "another", seal=ht.Masked(dropouts=0.02))


def test_pinned_clients_have_one_coordinators_ledger_and_can_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    those = clients(5)
    for at, client in enumerate(those):
        client.name, client.identity = f"c{at}", Identity.new()
        client.ledger = ht.Ledger.new(tmp_path / f"own-{at}.db", 9.0, 1e-4)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr("hushtune.run.result.Result.save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune(those, tmp_path)
    resumed = tune(those, tmp_path)
    assert resumed.pinned
    assert spent(tmp_path) == [pytest.approx(1.0, rel=1e-3)]
    with pytest.raises(ht.BudgetError):
        tune(those, tmp_path, folder=tmp_path / "second")
    (kept,) = (tmp_path / "rosters").iterdir()
    kept.write_text(kept.read_text().replace('"c0"', '"cx"'))
    with pytest.raises(ht.SettingError, match="must be the roster of these clients, but names others"):
        tune(those, tmp_path, folder=tmp_path / "third")


# ---- the account alone -------------------------------------------------------------------------------


def account(ledger: ht.Ledger | None, **changes: Any) -> tuple[Account, Watched]:
    watched = Watched()
    return Account(ledger, RUN, terms(**changes), watched), watched


def test_a_run_is_charged_once_and_told_once(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    books, watched = account(ledger)
    books.check()
    assert not ledger.exists  # checking makes no ledger
    for _ in range(3):
        books.reserve()
    (entry,) = ledger.entries()
    assert (entry.charge.run, entry.opened) == (RUN, False)
    assert watched.kinds("spent") == [("spent", terms().spent.epsilon, terms().spent.delta)]
    note = books.note()
    assert note is not None
    assert (note.new, note.runs, note.before, note.spent) == (True, 1, Budget(0.0, 0.0), terms().spent)


def test_a_run_that_was_taken_up_again_is_not_charged_again(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    for _ in range(2):
        books, _ = account(ledger)
        books.check()
        books.reserve()
    assert len(ledger.entries()) == 1
    note = books.note()
    assert note is not None
    assert (note.new, note.before) == (False, Budget(0.0, 0.0))  # it is not among what was spent before itself


def test_too_little_is_noticed_before_anybody_works_and_nothing_is_charged(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 1.0, 1e-4)
    books, watched = account(ledger)
    for charge in (books.check, books.reserve):
        with pytest.raises(ht.BudgetError):
            charge()
    assert (ledger.entries(), watched.events) == ([], [])


def test_an_opening_is_marked_when_it_is_made_and_not_when_it_is_read_again(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    books, _ = account(ledger)
    books.reserve()
    books.opened(0, now=False)
    assert [entry.opened for entry in ledger.entries()] == [False]
    books.opened(1, now=True)
    assert [entry.opened for entry in ledger.entries()] == [True]
    assert books.openings == 2


def test_an_exact_run_is_on_record_without_a_cost(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    books, watched = account(ledger, privacy=None)
    books.reserve()
    assert [entry.charge.exact for entry in ledger.entries()] == [True]
    assert watched.events == []
    note = books.note()
    assert note is not None
    assert (note.exact, note.limit, note.left) == (1, None, None)


def test_a_simulation_has_no_books() -> None:
    books, watched = account(None)
    books.check()
    books.reserve()
    books.opened(0, now=True)
    assert (books.note(), watched.events) == (None, [])
    with pytest.raises(OSError, match="full"), books.told():
        raise OSError("full")


@pytest.mark.parametrize(
    ("error", "reserved", "kind", "message"),
    [
        (ht.AbortedError("too few"), False, ht.AbortedError, "^too few; nothing was opened$"),
        (OSError("full"), False, OSError, "^full$"),
        (OSError("full"), True, ht.SpentError, "reserved: OSError: full; nothing was opened; see the ledgers$"),
        (ht.SettingError("odd"), True, ht.SpentError, "reserved: SettingError: odd; nothing was opened; see the"),
        (KeyboardInterrupt(), True, KeyboardInterrupt, "^$"),
    ],
)
def test_whatever_ends_a_run_says_what_it_cost(
    tmp_path: Path, error: BaseException, reserved: bool, kind: Any, message: str
) -> None:
    books, _ = account(ht.Ledger(tmp_path / "ledger.db"))
    if reserved:
        books.reserve()
    with pytest.raises(kind, match=message), books.told():
        raise error


def test_openings_of_an_earlier_session_count_as_spent_too(tmp_path: Path) -> None:
    books, _ = account(ht.Ledger(tmp_path / "ledger.db"))
    books.opened(0, now=False)
    with pytest.raises(ht.SpentError, match="1 of 1 openings had been made, and count as spent; see"), books.told():
        raise OSError("full")
