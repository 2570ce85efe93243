"""What a client keeps is readable by its owner only, whatever mode its home has and whatever the umask is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from tests.federation.harness import CANDIDATES, Wire, data_of, distance
from tests.training.test_central import fit

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.trials import TrialStore
from hushtune.core.errors import CacheError
from hushtune.core.randomness import SystemRandomness
from hushtune.core.secret import Secret
from hushtune.privacy.anchor import Anchor
from hushtune.training import FedAvg

PUBLIC = {"rosters"}  # in a home: who takes part is for everybody


@pytest.fixture(autouse=True)
def open_to_all() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home that everybody may read and write."""
    place = tmp_path / "home"
    place.mkdir()
    place.chmod(0o777)
    return place


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def visible(home: Path) -> list[str]:
    """What somebody else could read or write there, by its mode."""
    found = [path for path in home.rglob("*") if mode(path) & 0o077]
    return sorted(str(path.relative_to(home)) for path in found if path.relative_to(home).parts[0] not in PUBLIC)


@ht.objective
def failing(config: ht.Config, data: ht.Rows) -> float:
    raise ValueError("a record, perhaps")


def clients(*objectives: Any, identities: bool = False) -> list[ht.Client]:
    known = [ht.Identity.new() if identities else None for _ in objectives]
    return [
        ht.Client(data_of(at), objective, name=f"c{at}", identity=identity)
        for at, (objective, identity) in enumerate(zip(objectives, known, strict=True))
    ]


def tune(home: Path, given: list[ht.Client], **changes: Any) -> ht.Result:
    settings: dict[str, Any] = {"method": ht.Vote(1), "privacy": ht.Privacy(1.0), "observer": ht.Silent(), "jobs": 1}
    return ht.tune(given, CANDIDATES, home=home, **{**settings, **changes})


def local(home: Path) -> None:
    tune(home, clients(distance, distance, failing, identities=True), folder=home.with_name("run"))


def searching(home: Path) -> None:
    method = ht.Thompson(iterations=2, initial=2, features=10)
    tune(home, clients(distance, distance, distance), method=method, privacy=None)


def simulated(home: Path) -> None:
    tune(home, clients(distance, failing, distance), simulation=ht.Simulation(1))


def remote(home: Path) -> None:
    wire = Wire(home, pinned=True)
    for at in range(wire.clients):
        ht.Ledger.new(wire.ledger(at).path, 9.0, 1e-4)
    wire.tune()


def owner(home: Path) -> None:
    fit(home.parent, ht.NoisyMax(voters=40), folder=home.with_name("model"))


RUNS: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "masked, one client fails": (local, {"trials.db", "ledger.db", "ledger.db.anchor", "client.log"}),
    "clients that search": (searching, {"trials.db", "ledger.db", "ledger.db.anchor"}),
    "simulation": (simulated, {"trials.db"}),
    "machines of their own": (remote, {"trials.db", "ledger.db", "ledger.db.anchor"}),
    "one owner's training": (owner, {"trials.db", "ledger.db", "ledger.db.anchor"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_after_a_run_nobody_else_can_read_a_file_of_a_home(home: Path, name: str) -> None:
    run, expected = RUNS[name]
    run(home)
    assert expected <= {path.name for path in home.rglob("*")}
    assert visible(home) == []
    assert mode(home) == 0o777  # the folder is the user's business


def test_what_is_written_for_others_stays_readable(home: Path) -> None:
    local(home)
    owner(home)
    run, model = home.with_name("run"), home.with_name("model")
    shared = {path.name: mode(path) for place in (run, model, home / "rosters") for path in place.glob("*.*")}
    assert set(shared.values()) == {0o666}
    assert {"run.json", "result.json", "model.pt", "fitted.json", "statement.txt"} <= set(shared)


@pytest.mark.parametrize("name", RUNS)
def test_files_of_an_earlier_release_are_mended_when_they_are_used(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run, _ = RUNS[name]
    run(home)
    for path in home.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.rmtree(home.with_name("run"), ignore_errors=True)
    shutil.rmtree(home.with_name("model"), ignore_errors=True)
    for ledger in map(ht.Ledger, home.rglob("ledger*.db")):
        if ledger.limit() is not None:
            ledger.set_limit(99.0, 1e-2)
    if name == "machines of their own":
        Wire(home, pinned=True).tune(privacy=ht.Privacy(0.9))
    else:
        run(home)
    left = [path for path in visible(home) if (home / path).is_file()]
    assert left == []


def test_trials_their_log_of_changes_and_what_is_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    store = TrialStore(path)
    store.put("data", "objective", 0, [{"x": 0.1}], np.array([0.2]))
    with closing(sqlite3.connect(path)) as reader:  # as a process that was killed leaves it
        reader.execute("BEGIN").fetchall()
        reader.execute("SELECT * FROM trials").fetchall()
        for beside in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            assert mode(beside) == 0o600
            beside.chmod(0o644)
        store.put("data", "objective", 0, [{"x": 0.3}], np.array([0.4]))
        for beside in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            assert mode(beside) == 0o600
    assert len(store.get("data", "objective", 0)) == 2


def test_a_ledgers_journal_is_its_owners_while_it_is_there(tmp_path: Path) -> None:
    ledger = ht.Ledger.new(tmp_path / "ledger.db", 3.0, 1e-4)
    with ledger._open(write=True) as db:
        db.execute("UPDATE charges SET opened=1")
        db.execute("INSERT INTO steps VALUES ('r','s',x'00',x'00')")
        assert mode(Path(f"{ledger.path}-journal")) == 0o600


def theirs(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Makes a file somebody else's; only root could do that in earnest."""
    real = Path.stat

    def stat_of(self: Path, **settings: Any) -> os.stat_result:
        found = real(self, **settings)
        return os.stat_result([*found[:4], found[4] + 1, *found[5:]]) if self == path else found

    monkeypatch.setattr(Path, "stat", stat_of)


def test_a_ledger_or_an_anchor_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, which in enumerate((lambda ledger: ledger.path, lambda ledger: Anchor(ledger.path).path)):
        ledger = ht.Ledger.new(tmp_path / f"{at}.db", 3.0, 1e-4)
        theirs(monkeypatch, which(ledger))
        for use in (ledger.limit, lambda ledger=ledger: ledger.set_limit(9.0, 1e-4)):
            with pytest.raises(ht.LedgerError, match="must belong to the user who runs this"):
                use()
        monkeypatch.undo()


def test_trials_of_somebody_else_stop_a_run_in_this_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local(home)
    theirs(monkeypatch, home / "trials.db")
    with pytest.raises(CacheError, match=r"trials\.db must belong to the user who runs this"):
        tune(home, clients(distance, distance))


@pytest.mark.parametrize("file", ["trials.db", "clients", "clients/client-1/ledger.db"])
def test_a_client_whose_files_are_somebody_elses_refuses_and_names_none(
    home: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    wire = Wire(home)
    for at in range(wire.clients):
        ht.Ledger.new(wire.ledger(at).path, 9.0, 1e-4)
    wire.tune()
    machine = home / "machine-1"
    place = machine / "clients" / "client-1" if file == "clients" else machine / file
    theirs(monkeypatch, place)
    ht.Ledger(next((home / "server" / "coordinator").glob("*.db"))).set_limit(9.0, 1e-4)
    result = wire.tune()
    (reason,) = result.dropped.values()
    assert list(result.dropped) == [wire.nodes[1]]
    assert reason.startswith("refused: ")
    assert str(home) not in reason
    assert "see the client's own log" in reason
    log = machine / "clients" / "client-1" / "client.log"
    assert f"{place} must belong to the user who runs this" in log.read_text()


def test_a_log_of_somebody_else_is_not_written_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails inside a client stays there, and so does what it would have logged."""
    given = clients(failing, distance, distance)
    tune(home, given)
    log = home / "clients" / "c0" / "client.log"
    assert mode(log) == 0o600
    log.chmod(0o666)
    before = log.read_text()
    party = Party(
        "c0", given[0], TrialStore(home / "trials.db"), log.parent, SystemRandomness(), secret=Secret.simulated(0, "c0")
    )
    theirs(monkeypatch, log)
    party.log("a secret")
    monkeypatch.undo()
    assert log.read_text() == before


def test_keys_are_mended_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "identity.key"
    ht.Identity.new().save(key)
    Secret.kept(tmp_path).make()
    for path, use, error in (
        (key, lambda: ht.Identity.load(key), ht.SettingError),
        (tmp_path / "secret.key", lambda: Secret.kept(tmp_path).make(), CacheError),
    ):
        assert mode(path) == 0o600
        path.chmod(0o644)
        use()
        assert mode(path) == 0o600
        theirs(monkeypatch, path)
        with pytest.raises(error, match="must belong to the user who runs this"):
            use()
        monkeypatch.undo()


def test_models_that_are_not_private_themselves_are_their_owners(tmp_path: Path) -> None:
    """Federated averaging keeps them between rounds, with no noise in them."""
    objective = ht.SklearnObjective(SGDClassifier())
    rows = [ht.Rows(np.random.default_rng(at).normal(size=(8, 2)), np.array([0, 1] * 4)) for at in range(2)]
    given = [ht.Client(held, objective) for held in rows]
    training: dict[str, Any] = {"folder": tmp_path, "jobs": 1, "observer": ht.Silent()}
    FedAvg(1).train(given, [{"alpha": 0.1}], **training)
    assert mode(tmp_path / "training.npz") == 0o600
    (tmp_path / "training.npz").chmod(0o644)
    FedAvg(1).train(given, [{"alpha": 0.1}], **training)
    assert mode(tmp_path / "training.npz") == 0o600
