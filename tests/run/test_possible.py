"""What was opened is checked before it is used: one client's lie is found where it exceeds what all can send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Make
from tests.run.harness import QUERY

import hushtune as ht
from hushtune.client import release
from hushtune.core.errors import BoundError
from hushtune.core.roster import Roster
from hushtune.privacy.bounds import Box
from hushtune.privacy.noise.base import Noise
from hushtune.run.possible import check_possible
from hushtune.run.result import Opened
from hushtune.seals.forms import Form

EXACT = Noise(0.0)


class Boxed:
    """A query of two blocks, for forms of its sum."""

    name, blocks, bound = "boxed", {"first": 2, "second": 2}, Box(9, 4, caps=(1, 1, 5))


def lie(monkeypatch: pytest.MonkeyPatch, name: str, added: list[int]) -> None:
    """Has one client add something to its vector, behind its own checks."""
    real = release.noisy

    def noisy(request: Any, party: Any, roster: Roster) -> Any:
        vector = real(request, party, roster)
        if party.id == name:
            vector = vector + np.resize(np.array([*added, *[0] * len(vector)]), len(vector))
        return vector

    monkeypatch.setattr(release, "noisy", noisy)


def run(clients: list[ht.Client], candidates: ht.Candidates, home: Path, **given: Any) -> ht.Result:
    fields = {"method": ht.Vote(1, decode="argmax"), "observer": ht.Silent(), "home": home, **given}
    return ht.tune(clients, candidates, **fields)


def test_under_masks_a_lie_beyond_what_all_can_send_aborts_the_run_and_counts_as_spent(
    make_clients: Make, candidates: ht.Candidates, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One of 100 adds 90 to one entry and takes 89 from another; the total of all entries stays within the noise's."""
    clients = make_clients(100)
    for at, client in enumerate(clients):
        client.name = f"c{at}"
    lie(monkeypatch, "c7", [90, -89])
    for privacy in (None, ht.Privacy(8.0)):
        folder = tmp_path / str(privacy is not None)
        place, ledger = home / folder.name, ht.Ledger(tmp_path / f"{folder.name}.db")
        for _ in range(2):  # the same command again finds what was opened on record, and says the same
            with pytest.raises(ht.AbortedError, match=r"an entry is below what 100 voters can send; .*, and count as"):
                run(clients, candidates, place, privacy=privacy, folder=folder, ledger=ledger)
        assert [entry.opened for entry in ledger.entries()] == [True]


def test_within_the_limits_one_client_under_masks_chooses_the_result(
    make_clients: Make, candidates: ht.Candidates, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no check can find, and the threat model says: the lie is no larger than the noise's reach."""
    clients = make_clients(100)
    for at, client in enumerate(clients):
        client.name = f"c{at}"
    honest = run(clients, candidates, home / "honest", privacy=ht.Privacy(0.5))
    assert honest.index is not None
    added = [0] * len(candidates)
    worst = 0 if honest.index else 1
    added[worst], added[honest.index] = 90, -89
    lie(monkeypatch, "c7", added)
    assert run(clients, candidates, home / "lied", privacy=ht.Privacy(0.5)).index == worst


@pytest.mark.parametrize("seal", [ht.Clear(), ht.Curator()])
@pytest.mark.parametrize("voters", [1, 2])
def test_where_the_server_sees_single_vectors_the_liar_is_left_out_and_named(
    make_clients: Make,
    candidates: ht.Candidates,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    seal: ht.Seal,
    voters: int,
) -> None:
    clients = make_clients(20)
    for at, client in enumerate(clients):
        client.name = f"c{at}"
    lie(monkeypatch, "c7", [3, -3])
    privacy = ht.Privacy(8.0, unit="record" if voters > 1 else "client") if seal.name == "curator" else None
    result = run(clients, candidates, home, privacy=privacy, seal=seal, method=ht.Vote(1, voters=voters))
    assert result.answered == 19
    assert list(result.dropped) == ["c7"]
    assert result.dropped["c7"].startswith("sent what no client can send: ")
    assert "c7 (sent what no client can send" in result.statement


def test_under_clear_with_noise_a_vector_is_held_to_the_reach_of_one_share(
    make_clients: Make, candidates: ht.Candidates, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = make_clients(20)
    for at, client in enumerate(clients):
        client.name = f"c{at}"
    lie(monkeypatch, "c7", [90, -89])
    result = run(clients, candidates, home, privacy=ht.Privacy(2.0), seal=ht.Clear())
    assert list(result.dropped) == ["c7"]


def test_liars_count_against_those_who_must_answer(
    make_clients: Make, candidates: ht.Candidates, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = make_clients(5)
    clients[3].name = "liar"
    lie(monkeypatch, "liar", [1])
    with pytest.raises(ht.AbortedError, match="5 of 5 clients must answer .* liar: sent what no client can send: "):
        run(clients, candidates, home, seal=ht.Clear())


# ---- one opening -------------------------------------------------------------------------------------


def opened(votes: list[int], answered: int = 10) -> Opened:
    return Opened(QUERY.name, {"votes": votes}, 0.0, answered)


def test_voters_and_answers_count() -> None:
    check_possible(QUERY, opened([10, 0, 0, 0]), 1, EXACT, 8)
    check_possible(QUERY, opened([10, 0, 0, 10]), 2, EXACT, 8)
    for wrong, voters in (([11, -1, 0, 0], 1), ([9, 0, 0, 0], 1), ([10, 0, 0, 0], 2)):
        with pytest.raises(BoundError):
            check_possible(QUERY, opened(wrong), voters, EXACT, 8)


def test_a_noisy_sum_is_held_to_the_reach_of_its_noise() -> None:
    noise = Noise(3.0)
    check_possible(QUERY, opened([25, -10, 4, -9]), 1, noise, 8)
    with pytest.raises(BoundError, match="an entry is below"):
        check_possible(QUERY, opened([60, -50, 4, -4]), 1, noise, 8)


def test_clients_own_answers_are_held_to_the_bound_and_stand_alone() -> None:
    own = {"a": {"votes": [1, 0, 0, 0]}, "b": {"votes": [0, 0, 0, 1]}}
    check_possible(QUERY, Opened(QUERY.name, {}, 0.0, 2, own), 1, EXACT, 2)
    wrong = {**own, "b": {"votes": [1, 0, 0, 1]}}
    with pytest.raises(BoundError, match="a ballot must be"):
        check_possible(QUERY, Opened(QUERY.name, {}, 0.0, 2, wrong), 1, EXACT, 2)
    with pytest.raises(BoundError, match="beside clients' own answers"):
        check_possible(QUERY, Opened(QUERY.name, {"votes": [1, 0, 0, 1]}, 0.0, 2, own), 1, EXACT, 2)


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        (Form("first", at_least=2), [0, 1], [0, 2]),
        (Form("first", over="second", least=1), [0.0, 1.01], [0.0, 1.6]),
        (Form("first"), [3, 0], [4, 0]),
        (Form("second"), [15, 27], [16, 0]),
        (Form("second"), [15, 0], [15, -1]),
    ],
    ids=str,
)
def test_forms_of_a_sum_are_checked_too(form: Form, right: list[Any], wrong: list[Any]) -> None:
    query: Any = Boxed()
    check_possible(query, Opened("boxed", {form.block: right}, 0.0, 3, form=form.to_json()), 1, EXACT, 3)
    with pytest.raises(BoundError):
        check_possible(query, Opened("boxed", {form.block: wrong}, 0.0, 3, form=form.to_json()), 1, EXACT, 3)
