"""What lies beside a result is compared with it: run.json, the report, the signature, the coordinator's ledger."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import clients_around
from tests.review.mutations import mutated

import hushtune as ht
from hushtune.review.beside import digest_of, digest_tag
from hushtune.review.checks import Beside
from hushtune.review.verification import Verification

GRID = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=11)
RUNS: dict[str, dict[str, Any]] = {
    "private": {"method": ht.Vote(2), "privacy": ht.Privacy(2.0)},
    "exact": {"method": ht.Vote(1), "seal": ht.Clear()},
    "simulation": {"method": ht.Vote(1), "privacy": ht.Privacy(2.0), "simulation": ht.Simulation(1)},
}
SIGNER = ht.Identity.new()
NOT_CHECKABLE = {
    "hushtune": "which release made a result stands nowhere else",
    "clients.pinned": "the roster, which has the keys or none, is not in the folder",
    "seconds": "how long a simulation or an exact run took, nobody else has measured",
    "traffic": "how much was carried, nobody else has counted",
    "ledger.new": "whether the run made the ledger, or somebody right before it, stands nowhere else",
    "simulation.figures": "what only a simulation knows follows from its data, which no file holds",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A place with the folder of a run ("run"), signed and reported, and its home ("home"); made once."""
    found: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in found:
            place = tmp_path_factory.mktemp(name)
            settings = {"jobs": 1, "observer": ht.Silent(), "home": place / "home", "identity": SIGNER}
            ht.tune(clients_around(12), GRID, folder=place / "run", **settings, **RUNS[name])
            ht.report(place / "run")
            found[name] = place
        return found[name]

    return make


@pytest.fixture
def copied(made: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(made(name), tmp_path / name))

    return copy


def seen(place: Path, **more: Any) -> Verification:
    return ht.verify(place / "run", home=place / "home", **more)


def failed(place: Path, **more: Any) -> list[str]:
    return [check.claim for check in seen(place, **more) if not check.holds]


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


# ---- honest folders ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_an_honest_folder_holds_and_it_is_said_what_was_seen(made: Callable[[str], Path], name: str) -> None:
    found = seen(made(name), signer=SIGNER.public.hex())
    assert [check for check in found if not check.holds] == []
    assert found.holds
    assert {one.name: one.found for one in found.beside} == {
        "run.json": True,
        "report.html": True,
        "result.sig": True,
        "ledger": name != "simulation",
    }
    for what in ("run.json", "report.html", "signature"):
        assert any(what in check.claim for check in found)


def test_a_result_alone_is_no_failure_and_says_what_is_missing(made: Callable[[str], Path], tmp_path: Path) -> None:
    shutil.copy(made("private") / "run" / "result.json", tmp_path)
    found = ht.verify(tmp_path)
    assert found.holds
    assert [one.found for one in found.beside] == [False] * 4
    assert found.beside[0] == Beside("run.json", False, f"not in {tmp_path}")


# ---- every field of result.json ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_every_change_of_a_field_is_noticed_or_known_not_to_be(copied: Callable[[str], Path]) -> None:
    """The statement is written anew to suit each change; report and signature are taken away."""
    unnoticed = {what for name in RUNS for what in unnoticed_in(copied(name))}
    assert {what.split(".")[0] if what.startswith(("seconds", "traffic")) else what for what in unnoticed} == set(
        NOT_CHECKABLE
    )


def unnoticed_in(place: Path) -> set[str]:
    for beside in ("report.html", "result.sig"):
        (place / "run" / beside).unlink()
    assert seen(place).holds
    path, unnoticed = place / "run" / "result.json", set()
    changes = list(mutated(json.loads(path.read_text())))
    assert len(changes) > 200
    for what, raw in changes:
        path.write_text(json.dumps(raw))
        try:
            holds = seen(place).holds
        except ht.SettingError as error:  # it cannot be read at all
            assert "\n" not in str(error)
            continue
        if holds:
            unnoticed.add(what.partition(":")[0])
    return unnoticed


def test_report_and_signature_notice_the_rest(copied: Callable[[str], Path]) -> None:
    place = copied("exact")
    rewrite(place / "run" / "result.json", lambda raw: raw["traffic"].update(trips=99))
    assert failed(place) == ["report.html was made from this result.json", "the signature is one of this result.json"]


FIELDS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "answered above asked": (
        lambda raw: raw["clients"].update(answered=99),
        "every field of result.json is there once, and says what the others say",
    ),
    "a candidate outside its space": (
        lambda raw: raw["candidates"]["configs"][0].update(x=7.0),
        "every field of result.json is there once, and says what the others say",
    ),
    "the chosen config outside its space": (
        lambda raw: raw["config"].update(x=7.0),
        "the method decides the same from the opened values",
    ),
    "another run's id": (lambda raw: raw.update(run="0" * 32), "run.json is of this run"),
    "another run's id, in the ledger": (
        lambda raw: raw.update(run="0" * 32),
        "the ledger has this run's charge: the same events, delta, unit and relation",
    ),
    "another ledger": (lambda raw: raw["ledger"].update(id="0" * 32), "it is the ledger that the result names"),
    "a field beside": (
        lambda raw: raw.update(more=1),
        "every field of result.json is there once, and says what the others say",
    ),
    "times": (lambda raw: raw["seconds"].update(score=1.5), "a real run with an epsilon carries no times"),
    "another candidate": (
        lambda raw: raw["candidates"]["configs"][0].update(x=0.05),
        "run.json was made for the same settings",
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_it_is_said_what_does_not_hold(copied: Callable[[str], Path], name: str) -> None:
    place, (change, claim) = copied("private"), FIELDS[name]
    rewrite(place / "run" / "result.json", change)
    assert claim in failed(place)


def test_a_field_that_stands_there_twice_is_noticed(made: Callable[[str], Path], tmp_path: Path) -> None:
    text = (made("private") / "run" / "result.json").read_text()
    (tmp_path / "result.json").write_text(text.replace('"epsilon":', '"epsilon": 0.1, "epsilon":', 1))
    (check,) = [check for check in ht.verify(tmp_path) if not check.holds]
    assert check.detail == "not so: epsilon"


def test_a_list_with_candidates_outside_their_space_says_so(tmp_path: Path) -> None:
    few = GRID.space.candidates([{"x": 0.2}, {"x": 0.4}, {"x": 3.0}])
    result = ht.tune(
        clients_around(3),
        few,
        method=ht.Vote(1),
        folder=tmp_path / "run",
        jobs=1,
        observer=ht.Silent(),
        seal=ht.Clear(),
    )
    assert result.to_json()["outside"] == [2]
    assert "1 of 3 public candidates, 1 outside their space" in result.statement
    assert ht.verify(tmp_path / "run").holds


# ---- run.json and report.html ------------------------------------------------------------------------


def one_vote_more(raw: dict[str, Any]) -> None:
    """Another number than the one that was opened, whichever noise made that."""
    raw["opened"][0]["opened"]["blocks"]["votes"][0] += 1


RECORDS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another id": (lambda raw: raw.update(run="f" * 32), "run.json is of this run"),
    "another opening": (one_vote_more, "run.json has the same openings"),
    "one opening more": (lambda raw: raw["opened"].append(raw["opened"][0]), "run.json has the same openings"),
    "a dropout": (
        lambda raw: raw["opened"][0]["dropped"].update(x="no reply"),
        "run.json names the same clients as missing or out of reach",
    ),
    "other settings": (
        lambda raw: raw["settings"].update(privacy="0" * 64),
        "run.json was made for the same settings",
    ),
    "damaged": (lambda raw: raw.pop("opened"), "run.json is whole"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_other_records_of_the_run_are_noticed(copied: Callable[[str], Path], name: str) -> None:
    place, (change, claim) = copied("private"), RECORDS[name]
    rewrite(place / "run" / "run.json", change)
    assert failed(place) == [claim]


def test_a_report_of_other_bytes_or_without_a_digest_is_noticed(copied: Callable[[str], Path]) -> None:
    place = copied("private")
    report, content = place / "run" / "report.html", (place / "run" / "result.json").read_bytes()
    tag = digest_tag(digest_of(content))
    assert report.read_text().count(tag) == 1
    before = report.read_bytes()
    assert ht.report(place / "run").read_bytes() == before  # the same result gives the same report
    for other in (digest_tag("0" * 64), ""):
        report.write_bytes(before.replace(tag.encode(), other.encode()))
        assert failed(place) == ["report.html was made from this result.json"]


# ---- the signature -----------------------------------------------------------------------------------


def test_a_missing_foreign_or_wrong_signature_fails(copied: Callable[[str], Path], tmp_path: Path) -> None:
    place, other = copied("private"), ht.Identity.new()
    shown = tmp_path / "key.txt"
    shown.write_text(SIGNER.public.hex() + "\n")  # as `hushtune identity show` prints it
    assert failed(place, signer=shown) == []
    assert failed(place, signer=other.public.hex()) == ["it is the signer's"]
    signature = place / "run" / "result.sig"
    foreign = {"public": other.public.hex(), "signature": SIGNER.sign(b"something else").hex()}
    signature.write_text(json.dumps(foreign))
    assert failed(place) == ["the signature is one of this result.json"]
    signature.write_text("{}")
    assert failed(place) == ["result.sig is whole"]
    signature.unlink()
    assert failed(place) == []
    assert failed(place, signer=shown) == ["the result is signed"]


def test_files_nested_too_deeply_to_be_read_are_damaged(copied: Callable[[str], Path]) -> None:
    place, deep = copied("private"), "[" * 100_000
    for name, claim in (("run.json", "run.json is whole"), ("result.sig", "result.sig is whole")):
        kept = (place / "run" / name).read_text()
        (place / "run" / name).write_text(deep)
        assert failed(place) == [claim]
        (place / "run" / name).write_text(kept)


@pytest.mark.parametrize("signer", ["", "abc", "z" * 64, "no/such/file", "0" * 63])
def test_a_signer_that_is_no_key_is_refused(made: Callable[[str], Path], signer: str) -> None:
    with pytest.raises(ht.SettingError, match="a signer must be 64 hex digits, or a file"):
        seen(made("private"), signer=signer)


def test_a_secret_key_is_no_signer_and_is_not_repeated(made: Callable[[str], Path], tmp_path: Path) -> None:
    SIGNER.save(tmp_path / "secret")
    with pytest.raises(ht.SettingError) as caught:
        seen(made("private"), signer=tmp_path / "secret")
    assert SIGNER.secret.hex() not in str(caught.value)


# ---- the ledger --------------------------------------------------------------------------------------


def books(place: Path) -> ht.Ledger:
    (path,) = (place / "home" / "coordinator").glob("ledger*.db")
    return ht.Ledger(path)


def test_a_ledger_elsewhere_can_be_named(copied: Callable[[str], Path], tmp_path: Path) -> None:
    place = copied("private")
    kept = books(place).path
    kept.with_name(kept.name + ".anchor").rename(tmp_path / "books.db.anchor")
    moved = ht.Ledger(kept.rename(tmp_path / "books.db"))
    assert not seen(place).beside[-1].found
    assert seen(place, ledger=moved).holds
    foreign = ht.Ledger.new(tmp_path / "other.db", 9.0, 1e-3)
    wrong = failed(place, ledger=foreign)
    assert "it is the ledger that the result names" in wrong
    assert "the ledger has this run's charge: the same events, delta, unit and relation" in wrong
    assert failed(place, ledger=ht.Ledger(tmp_path / "none.db")) == ["the ledger can be read"]
    (detail,) = [check.detail for check in seen(place, ledger=ht.Ledger(tmp_path / "none.db")) if not check.holds]
    assert "none.db does not exist; give the coordinator's ledger, or none" in detail
    assert "make it with" not in detail
    gone = ht.Ledger(moved.path.rename(tmp_path / "away.db").with_name("books.db"))  # its anchor is there
    assert failed(place, ledger=gone) == ["the ledger can be read"]


def test_a_changed_ledger_is_noticed(copied: Callable[[str], Path]) -> None:
    place = copied("private")
    with closing(sqlite3.connect(books(place).path)) as db:
        db.execute("UPDATE charges SET delta=1e-9")
        db.commit()
    assert failed(place) == ["the ledger can be read"]


def test_a_limit_that_is_lowered_or_raised_later_is_no_failure(copied: Callable[[str], Path]) -> None:
    place = copied("private")
    for epsilon in (0.5, 9.0):
        books(place).set_limit(epsilon, 1e-5)
        assert failed(place) == []


def test_charges_beyond_every_limit_are_noticed(copied: Callable[[str], Path]) -> None:
    place = copied("private")
    with closing(sqlite3.connect(books(place).path)) as db:
        db.execute("UPDATE limits SET epsilon=1.0")
        db.commit()
    books(place).set_limit(1.0, 1e-5, accept_loss=True)  # else the anchor gives it away
    assert failed(place) == [
        "the limit that the result names is one that the ledger had",
        "all charges together keep to a limit that the ledger had",
    ]


def test_charges_must_keep_to_one_limit_and_not_to_parts_of_several(copied: Callable[[str], Path]) -> None:
    """The epsilon of one limit beside the delta of another is a limit that the ledger never had."""
    place = copied("private")
    with closing(sqlite3.connect(books(place).path)) as db:
        db.execute("DELETE FROM limits")
        db.executemany("INSERT INTO limits VALUES (NULL,?,?,0)", [(9.0, 1e-12), (0.01, 1e-3)])
        db.commit()
    books(place).set_limit(0.01, 1e-3, accept_loss=True)  # else the anchor gives it away
    assert "all charges together keep to a limit that the ledger had" in failed(place)


def test_a_later_run_does_not_disturb(copied: Callable[[str], Path]) -> None:
    place = copied("private")
    books(place).set_limit(9.0, 1e-3)
    for path in (place / "home" / "clients").glob("*/ledger.db"):
        ht.Ledger(path).set_limit(9.0, 1e-3)
    settings = {"jobs": 1, "observer": ht.Silent(), "home": place / "home"}
    ht.tune(clients_around(12), GRID, folder=place / "later", **settings, **RUNS["private"])
    assert failed(place) == []
    assert ht.verify(place / "later", home=place / "home").holds


def test_a_simulation_must_not_be_in_a_ledger(copied: Callable[[str], Path]) -> None:
    simulated, real = copied("simulation"), copied("private")
    assert seen(simulated, ledger=books(real)).holds
    run = json.loads((real / "run" / "run.json").read_text())["run"]
    rewrite(simulated / "run" / "result.json", lambda raw: raw.update(run=run))
    assert "the ledger has no charge for a simulation" in failed(simulated, ledger=books(real))
