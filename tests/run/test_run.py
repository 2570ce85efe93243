"""A run's books: what it says when it ends early, and whose ledgers it charges."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.identity import Identity
from hushtune.federation.base import Dropped
from hushtune.federation.local import LocalFederation

CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=6)
ONCE = ht.Privacy(1.0)


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    if data.y[0] < 0:
        os._exit(7)
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


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("others", [0, 4])
def test_an_objective_that_kills_its_process_shows_nowhere(tmp_path: Path, jobs: int, others: int) -> None:
    those = clients(others + 1)
    those[0].data = ht.Rows(np.zeros((4, 1)), np.full(4, -1.0))
    result = tune(those, tmp_path, jobs=jobs, seal=ht.Clear())
    assert result.dropped == {}
    assert result.answered == others + 1


def test_clients_are_told_which_cells_are_dense_and_the_statement_says_so(tmp_path: Path) -> None:
    result = tune(clients(6), tmp_path, ht.Combine("dbscan"), privacy=None)
    counts = next(found for found in result.disclosures if "numbers of good configs" in found.what)
    assert counts.to == "server, all clients and every reader of the result"
