from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import distance

import hushtune as ht
from hushtune.core.words import down, up
from hushtune.privacy.accounting import Budget, epsilon_of
from hushtune.privacy.charges import Charge, as_replace_one, charge_of
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.sums import SkellamShift

EVENT = SkellamShift(400.0, 2)  # cheap to account for
DELTA = 1e-6
COST = epsilon_of((EVENT,), DELTA)


def charge(run: str = "r1", **changes: Any) -> Charge:
    fields: dict[str, Any] = {"run": run, "what": "test", "events": (EVENT,), "delta": DELTA}
    return Charge(**{**fields, "unit": "client", "neighbours": "replace-one", **changes})


def left_of(ledger: ht.Ledger) -> float:
    left = ledger.left()
    assert left is not None
    return left.epsilon


@pytest.fixture
def ledger(tmp_path: Path) -> ht.Ledger:
    return ht.Ledger.new(tmp_path / "ledger.db", epsilon=2.5 * COST, delta=1e-4)


def test_replays_events_and_refuses_to_overspend(ledger: ht.Ledger) -> None:
    assert ledger.spent() == Budget(0.0, 0.0)
    ledger.reserve(charge("r1"))
    ledger.reserve(charge("r2"))
    assert ledger.spent().epsilon == pytest.approx(2 * COST)
    assert left_of(ledger) == pytest.approx(0.5 * COST)
    with pytest.raises(ht.BudgetError) as caught:
        ledger.reserve(charge("r3"))
    message = str(caught.value)
    assert "\n" not in message
    for part in (up(3 * COST), f"epsilon <= {down(0.5 * COST)}", "hushtune ledger limit", "2 earlier runs"):
        assert part in message
    assert len(ledger.entries()) == 2


def test_check_raises_what_reserve_would_and_records_nothing(ledger: ht.Ledger) -> None:
    ledger.check(charge())
    assert ledger.entries() == []
    with pytest.raises(ht.BudgetError):
        ledger.check(charge(events=(EVENT,) * 9))


def test_delta_is_limited_too(ledger: ht.Ledger) -> None:
    with pytest.raises(ht.BudgetError, match=r"delta 0\.01"):
        ledger.reserve(charge(delta=0.01))


def test_the_advice_in_a_refusal_is_enough(ledger: ht.Ledger) -> None:
    for run in ("r1", "r2"):
        ledger.reserve(charge(run))
    with pytest.raises(ht.BudgetError) as caught:
        ledger.reserve(charge("r3"))
    words = str(caught.value).split()
    epsilon = float(words[words.index("--epsilon") + 1])
    delta = float(words[words.index("--delta") + 1])
    ledger.set_limit(epsilon, delta)
    ledger.reserve(charge("r3"))


def test_what_is_left_really_fits(ledger: ht.Ledger) -> None:
    ledger.reserve(charge())
    left = left_of(ledger)
    ledger.set_limit(left + ledger.spent().epsilon, 1e-4)
    assert left_of(ledger) == pytest.approx(left)


def test_the_same_charge_again_changes_nothing_and_another_one_is_refused(ledger: ht.Ledger) -> None:
    ledger.reserve(charge())
    ledger.reserve(charge())
    assert len(ledger.entries()) == 1
    with pytest.raises(ht.LedgerError, match="another charge"):
        ledger.reserve(charge(delta=DELTA / 2))


def test_unit_and_relation_are_fixed_when_made(tmp_path: Path, ledger: ht.Ledger) -> None:
    with pytest.raises(ht.LedgerError, match="per client, but the run counts per record"):
        ledger.reserve(charge(unit="record"))
    zero_out = ht.Ledger.new(tmp_path / "zero.db", 9.0, 1e-4, neighbours="zero-out")
    with pytest.raises(ht.LedgerError, match="no conversion"):
        zero_out.reserve(charge())
    renyi = ht.Ledger.new(tmp_path / "renyi.db", 9.0, 1e-4, rule="renyi")
    with pytest.raises(ht.LedgerError, match="no conversion"):
        renyi.reserve(charge(neighbours="zero-out"))
    assert zero_out.entries() == renyi.entries() == []


def test_a_removal_relation_is_converted_to_replacement(ledger: ht.Ledger) -> None:
    other = charge(neighbours="zero-out")
    converted = as_replace_one(other)
    assert converted.epsilon == pytest.approx(2 * COST)
    assert converted.delta > 2 * DELTA
    ledger.reserve(other)
    assert ledger.spent() == converted
    with pytest.raises(ht.BudgetError):
        ledger.reserve(charge("r2"))


def test_renyi_rule(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(tmp_path / "renyi.db", epsilon=2.0, delta=DELTA, rule="renyi")
    assert ledger.left() == Budget(2.0, DELTA)
    alone = ledger.terms().rule.spent([((EVENT,), DELTA)], DELTA).epsilon  # above COST
    runs = 0
    while left_of(ledger) >= alone:
        ledger.reserve(charge(f"r{runs}"))
        runs += 1
    with pytest.raises(ht.BudgetError):
        ledger.reserve(charge("one more"))
    assert runs * COST > 2.0  # more fits than under plain sums
    assert ledger.spent().epsilon <= 2.0


def test_nothing_is_refunded_and_openings_are_noted(ledger: ht.Ledger) -> None:
    ledger.reserve(charge())
    ledger.mark_opened("r1")
    assert [entry.opened for entry in ledger.entries()] == [True]
    assert not hasattr(ledger, "refund")


def test_a_ledger_that_cannot_be_made_is_one_line_with_its_path() -> None:
    for make in (ht.Ledger.new, lambda path: ht.Ledger(path).ensure(ht.Privacy(1.0))):
        with pytest.raises(ht.LedgerError) as caught:
            make("/proc/ledger.db")  # where nobody can make a file
        assert str(caught.value).startswith("/proc/ledger.db cannot be made: No such file or directory; give a path")


def test_a_ledger_is_never_made_twice(ledger: ht.Ledger) -> None:
    with pytest.raises(ht.LedgerError, match="exists already"):
        ht.Ledger.new(ledger.path, 9.0, 0.1)
    assert not ledger.ensure(ht.Privacy(9.0))
    limit = ledger.limit()
    assert limit is not None
    assert limit.epsilon == pytest.approx(2.5 * COST)
    assert sorted(path.name for path in ledger.path.parent.glob("*ledger*")) == ["ledger.db", "ledger.db.anchor"]


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to be one" * 50])
def test_a_foreign_or_empty_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.db"
    path.write_bytes(content)
    for use in (lambda: ht.Ledger(path).spent(), lambda: ht.Ledger(path).reserve(charge())):
        with pytest.raises(ht.LedgerError, match=r"foreign\.db must be a hushtune ledger"):
            use()


def test_exact_runs_are_recorded_until_there_is_a_limit(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    assert ledger.ensure(None)
    assert not ledger.ensure(None)
    ledger.reserve(charge_of("exact", "test", (), None))
    assert ledger.limit() is ledger.left() is None
    assert ledger.spent() == Budget(0.0, 0.0)
    ledger.ensure(ht.Privacy(2.0, neighbours="zero-out"))
    assert ledger.terms().neighbours == "zero-out"
    ledger.reserve(charge("private", neighbours="zero-out"))
    with pytest.raises(ht.BudgetError, match="a run without epsilon exceeds any"):
        ledger.reserve(charge_of("another", "test", (), None))
    assert [entry.charge.exact for entry in ledger.entries()] == [True, False]
    ledger.ensure(ht.Privacy(9.0))
    assert ledger.limit() == Budget(2.0, 1e-5)  # only the first epsilon sets it


def test_a_step_is_answered_once(ledger: ht.Ledger) -> None:
    assert ledger.answered("r1", "0", b"request") is None
    assert ledger.commit(charge(), "r1", "0", b"request", b"reply") == b"reply"
    assert ht.Ledger(ledger.path).answered("r1", "0", b"request") == b"reply"
    assert ledger.commit(charge(), "r1", "0", b"request", b"a second draw") == b"reply"  # only one ever leaves
    for again in (
        lambda: ledger.answered("r1", "0", b"other"),
        lambda: ledger.commit(charge(), "r1", "0", b"other", b"reply"),
    ):
        with pytest.raises(ht.RefusedError, match="for another request"):
            again()
    ledger.commit(charge(), "r1", "1", b"next", b"reply")
    ledger.commit(None, "r1", "2", b"free", b"reply")
    assert len(ledger.entries()) == 1


def test_a_refused_run_takes_no_step(ledger: ht.Ledger) -> None:
    with pytest.raises(ht.BudgetError):
        ledger.commit(charge(events=(EVENT,) * 9), "r1", "0", b"request", b"reply")
    assert ledger.answered("r1", "0", b"request") is None


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE charges (x)")
    with pytest.raises(ht.LedgerError, match="another kind of file"):
        ht.Ledger(tmp_path / "other.db").spent()


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE charges SET events='[]' WHERE seq=1",
        "UPDATE charges SET delta=0.5 WHERE seq=1",
        "DELETE FROM charges WHERE seq=1",
        "DELETE FROM terms",
    ],
)
def test_an_altered_ledger_is_refused(ledger: ht.Ledger, tampering: str) -> None:
    ledger.reserve(charge("r1"))
    ledger.reserve(charge("r2"))
    with sqlite3.connect(ledger.path) as db:
        db.execute(tampering)
    for use in (ledger.spent, lambda: ledger.reserve(charge("r3"))):
        with pytest.raises(ht.LedgerError, match=r"altered|damaged|lacks 1 of 2 charges") as caught:
            use()
        assert "put back the newest file, an older copy is refused too" in str(caught.value)


def test_a_damaged_page_is_refused(ledger: ht.Ledger) -> None:
    ledger.reserve(charge())
    content = bytearray(ledger.path.read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    ledger.path.write_bytes(bytes(content))
    with pytest.raises(ht.LedgerError):
        ledger.spent()


def _race(path: Path, run: str, barrier: Any, outcomes: Any) -> None:
    barrier.wait()
    try:
        ht.Ledger(path).reserve(charge(run))
        outcomes.put("passed")
    except ht.BudgetError:
        outcomes.put("refused")


def test_parallel_runs_cannot_both_pass_the_last_of_a_budget(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(3):
        ledger = ht.Ledger.new(tmp_path / f"race{attempt}.db", epsilon=1.5 * COST, delta=1e-4)
        barrier, outcomes = context.Barrier(4), context.Queue()
        racers = [context.Process(target=_race, args=(ledger.path, f"r{i}", barrier, outcomes)) for i in range(4)]
        for racer in racers:
            racer.start()
        found = sorted(outcomes.get(timeout=60) for _ in racers)
        for racer in racers:
            racer.join()
        assert found == ["passed", "refused", "refused", "refused"]
        assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0, "delta": 1e-5}, "epsilon=0"),
        ({"epsilon": 1, "delta": 2}, "delta=2"),
        ({"epsilon": 1, "delta": 1e-5, "rule": "magic"}, "rule must be"),
        ({"epsilon": 1, "delta": 1e-5, "unit": "day"}, "unit must be"),
    ],
)
def test_bad_terms(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.Ledger.new(tmp_path / "bad.db", **arguments)
    assert not (tmp_path / "bad.db").exists()


def test_a_missing_ledger_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(ht.LedgerError, match=r"does not exist; make it with `hushtune ledger limit"):
        ht.Ledger(tmp_path / "none.db").spent()


def test_what_is_written_survives_a_power_cut(tmp_path: Path) -> None:
    """EXTRA (3) also brings the journal's end to disk; with less, a charge could come undone after the reply left."""
    ledger = ht.Ledger.new(tmp_path / "ledger.db", epsilon=1.0, delta=1e-5)
    with ledger._open(write=True) as db:
        assert db.execute("PRAGMA synchronous").fetchone() == (3,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_reply_may_answer_several_steps_each_once(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(tmp_path / "ledger.db")
    assert not ledger.knows("r")
    ledger.commit(None, "r", "a", b"1", b"reply", [("b", b"1", b"reply"), ("c", b"2", b"")])
    assert ledger.knows("r")
    assert ledger.answered("r", "b", b"1") == b"reply"
    assert ledger.commit(None, "r", "d", b"3", b"next", [("c", b"2", b"")]) == b"next"
    with pytest.raises(ht.RefusedError, match="step 'b' of this run was answered already"):
        ledger.commit(None, "r", "e", b"4", b"other", [("b", b"4", b"other")])
    assert ledger.answered("r", "e", b"4") is None


def test_a_ledger_of_release_0_1_keeps_counting(tmp_path: Path) -> None:
    """It was made by 0.1 with a limit of 3 and charged by one private vote: nothing of that is forgotten."""
    path = tmp_path / "ledger.db"
    shutil.copy(Path(__file__).with_name("ledger-0.1.sqlite"), path)
    ledger = ht.Ledger(path)
    assert ledger.limit() == Budget(3.0, 1e-4)
    assert ledger.spent().epsilon == pytest.approx(1.0, rel=1e-4)
    assert len(ledger.entries()) == 1
    assert not ledger.ensure(ht.Privacy(1.0))  # never replaced by an empty one
    clients = [ht.Client(([[0.0]] * 2, [0.5] * 2), distance, name=f"c{at}") for at in range(4)]
    clients[0].ledger = ledger
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
    settings: dict[str, Any] = {"method": ht.Vote(1), "observer": ht.Silent(), "jobs": 1, "home": tmp_path / "home"}
    ht.tune(clients, candidates, privacy=ht.Privacy(1.5), **settings)
    assert len(ledger.entries()) == 2
    assert ledger.spent().epsilon == pytest.approx(2.5, rel=1e-3)
    others = [ht.Client(([[0.0]] * 2, [0.5] * 2), distance, name=f"d{at}") for at in range(3)]
    with pytest.raises(ht.AbortedError, match="refuse"):
        ht.tune([clients[0], *others], candidates, privacy=ht.Privacy(1.0), seal=ht.Masked(dropouts=0.0), **settings)
    assert ledger.spent().epsilon == pytest.approx(2.5, rel=1e-3)


def test_a_masked_vote_opens_each_clients_ledger_once_for_each_trip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real = sqlite3.connect

    def counted(path: Any, *args: Any, **settings: Any) -> sqlite3.Connection:
        opened.append(str(path))
        return real(path, *args, **settings)

    clients = [ht.Client(([[0.0]] * 2, [0.5] * 2), distance, name=f"c{at}") for at in range(6)]
    for client in clients:
        client.ledger = ht.Ledger.new(tmp_path / f"{client.name}.db", 3.0, 1e-4)
    monkeypatch.setattr("hushtune.privacy.ledger_file.sqlite3.connect", counted)
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
    result = ht.tune(
        clients, candidates, method=ht.Vote(1), privacy=ht.Privacy(1.0), observer=ht.Silent(), jobs=1, home=tmp_path
    )
    assert result.traffic is not None
    trips = int(result.traffic["trips"])
    for client in clients:  # one more: whether the run fits is looked up before anybody scores
        assert sum(path.endswith(f"{client.name}.db") for path in opened) == trips + 1


@pytest.mark.parametrize("what", ["removed", "replaced"])
def test_a_ledger_that_goes_while_it_is_in_use_is_refused(tmp_path: Path, what: str) -> None:
    """Else a charge would go to a file that nobody finds again."""
    path = tmp_path / "ledger.db"
    ht.Ledger.new(path, 3.0, 1e-4)
    with ht.Ledger(path).connected() as ledger:
        assert ledger.limit() is not None
        path.unlink()
        if what == "replaced":
            ht.Ledger.new(path, 9.0, 1e-4, accept_loss=True)
        with pytest.raises(ht.LedgerError, match="removed or replaced while it was in use"):
            ledger.reserve(charge())


# ---- delta 0 -----------------------------------------------------------------------------------------


def pure(run: str, epsilon: float, **changes: Any) -> Charge:
    return charge(run, events=(PureTests(epsilon),), delta=0.0, **changes)


@pytest.fixture
def own(tmp_path: Path) -> ht.Ledger:
    return ht.Ledger.new(tmp_path / "pure.db", epsilon=0.3, delta=0)


def test_a_limit_without_delta_is_kept_to_the_last_digit(own: ht.Ledger) -> None:
    """A tenth three times is three tenths, although floats say more; and nothing is above the limit by 1e-9 of it."""
    assert own.limit() == own.left() == Budget(0.3, 0.0)
    own.reserve(pure("r1", 0.1))
    assert own.left() == Budget(0.2, 0.0)
    with pytest.raises(ht.BudgetError):
        own.reserve(pure("large", 0.2 * (1 + 1e-12)))
    own.reserve(pure("r2", 0.2))
    assert (own.spent(), own.left()) == (Budget(0.3, 0.0), Budget(0.0, 0.0))
    with pytest.raises(ht.BudgetError, match="nothing fits any more"):
        own.reserve(pure("tiny", 1e-15))
    own.reserve(pure("nothing", 0.0))
    assert own.entries()[-1].charge == pure("nothing", 0.0)  # as it was charged, read back


def test_only_pure_charges_fit_under_a_limit_without_delta(own: ht.Ledger) -> None:
    with pytest.raises(ht.BudgetError, match=r"limit is epsilon 0\.3, delta 0, but .* delta 1e-06 .*--delta 1e-06"):
        own.reserve(charge(events=(PureTests(0.1),)))
    with pytest.raises(ht.BudgetError, match="must be pure, but got a sum under Skellam noise"):
        own.reserve(charge(delta=0.0))
    assert own.entries() == []


def test_the_refusal_of_a_pure_charge_says_what_fits_and_what_is_enough(own: ht.Ledger) -> None:
    own.reserve(pure("r1", 0.1))
    with pytest.raises(ht.BudgetError) as caught:
        own.reserve(pure("r2", 0.25))
    assert str(caught.value) == (
        "the ledger's limit is epsilon 0.3, delta 0, but this run would bring it to epsilon 0.35, delta 0 "
        "(rule 'sums', 1 earlier runs); a run with epsilon <= 0.2, delta <= 0 would fit; to raise it: "
        f"hushtune ledger limit {own.path} --epsilon 0.35 --delta 0"
    )
    own.set_limit(0.35, 0)
    own.reserve(pure("r2", 0.25))


def test_pure_charges_fit_where_delta_is_used_up(ledger: ht.Ledger) -> None:
    ledger.reserve(charge("r1", delta=1e-4))
    assert ledger.left() == Budget(left_of(ledger), 0.0)
    with pytest.raises(ht.BudgetError, match=r"a run with epsilon <= .*, delta <= 0 would fit"):
        ledger.reserve(charge("r2"))
    ledger.reserve(pure("r2", left_of(ledger)))
    assert ledger.spent() == Budget(2.5 * COST, 1e-4)
    ledger.set_limit(9.0, 0)  # less than was spent: no run mends that
    with pytest.raises(ht.BudgetError, match="nothing fits any more"):
        ledger.reserve(pure("r3", 0.1))


def test_a_removal_is_converted_without_delta(own: ht.Ledger) -> None:
    own.reserve(pure("r1", 0.15, neighbours="zero-out"))
    assert own.spent() == Budget(0.3, 0.0)


def test_a_renyi_ledger_needs_a_delta_and_takes_pure_runs(tmp_path: Path) -> None:
    path = tmp_path / "renyi.db"
    with pytest.raises(ht.SettingError, match="rule 'renyi' needs a limit with `delta > 0`, but got delta=0"):
        ht.Ledger.new(path, 2.0, 0, rule="renyi")
    assert not path.exists()
    ledger = ht.Ledger.new(path, 2.0, DELTA, rule="renyi")
    with pytest.raises(ht.SettingError, match="give a delta, or use rule 'sums'"):
        ledger.set_limit(3.0, 0)
    assert ledger.limit() == Budget(2.0, DELTA)
    ledger.reserve(pure("r1", 0.1))
    assert ledger.spent() == ledger.terms().rule.spent([((PureTests(0.1),), DELTA)], DELTA)


def test_the_first_guarantee_may_be_a_pure_one(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    assert ledger.ensure(ht.Privacy(2.0, 0))
    assert ledger.limit() == Budget(2.0, 0.0)
    assert ht.Ledger.new(tmp_path / "other.db", 1.0, -0.0).limits() == [Budget(1.0, 0.0)]
