"""What a client's owner did not allow does not happen, whatever the server asks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.federation.harness import CANDIDATES, ThreeVotes, Wire, reason_of

import hushtune as ht
from hushtune.client.client import Client
from hushtune.client.query import query_to_json
from hushtune.core.errors import AbortedError
from hushtune.core.wire import pack, unpack
from hushtune.federation.endpoint import Endpoint
from hushtune.federation.envelope import Letter
from hushtune.methods.vote.ballots import TopVotes

PINNED = pytest.mark.parametrize("pinned", [False, True], ids=["unpinned", "pinned"])
CLEAR, CURATOR, MASKED = ht.Clear(dropouts=0.4), ht.Curator(dropouts=0.4), ht.Masked(dropouts=0.4)
SOME = ht.Privacy(0.1)


class Unowned(Wire):
    """Nodes whose owners have set nothing at all."""

    def client(self, at: int) -> Client:
        made = super().client(at)
        made.policy = self.policy
        return made


def refusals(wire: Wire) -> set[str]:
    return {reason_of(seen.answer) for seen in wire.seen}


def untouched(wire: Wire) -> bool:
    """Whether nothing was scored, charged or begun."""
    return not any(wire.home.glob("machine-*/**/work.db")) and not any(
        entry for at in range(wire.clients) if wire.ledger(at).exists for entry in wire.ledger(at).entries()
    )


@PINNED
@pytest.mark.parametrize(
    ("seal", "privacy", "reason"),
    [
        (MASKED, SOME, "no limit: this client's owner has set none"),
        (MASKED, None, "exact = true"),
        (CLEAR, SOME, 'seals = ["clear"]'),
        (CLEAR, None, 'seals = ["clear"]'),
        (CURATOR, SOME, 'seals = ["curator"]'),
    ],
)
def test_without_a_limit_or_a_policy_every_run_is_refused(
    tmp_path: Path, pinned: bool, seal: ht.Seal, privacy: ht.Privacy | None, reason: str
) -> None:
    wire = Unowned(tmp_path, pinned=pinned)
    with pytest.raises(AbortedError, match="nothing was opened"):
        wire.tune(seal=seal, privacy=privacy)
    (said,) = refusals(wire)
    assert reason in said
    assert untouched(wire)


def test_the_refusal_names_the_command_and_the_log_has_it_whole(tmp_path: Path) -> None:
    wire = Unowned(tmp_path)
    with pytest.raises(AbortedError):
        wire.tune()
    (reason,) = refusals(wire)
    assert "`hushtune ledger limit` does" in reason
    assert str(tmp_path) not in reason
    log = (tmp_path / "machine-0" / "clients" / "client-0" / "client.log").read_text()
    assert f"hushtune ledger limit {wire.ledger(0).path} --epsilon 1 --delta 1e-5 --unit client" in log
    assert "refused a run: no limit" in log


def test_every_refusal_is_in_the_owners_own_log(tmp_path: Path) -> None:
    wire = Wire(tmp_path, policy=ht.Policy(epsilon=0.5))
    with pytest.raises(AbortedError):
        wire.tune(privacy=ht.Privacy(1.0))
    log = (tmp_path / "machine-0" / "clients" / "client-0" / "client.log").read_text()
    assert "refused a run: policy: `epsilon <= 0.5` must hold" in log


def test_a_ledger_that_nothing_was_charged_to_can_count_something_else(tmp_path: Path) -> None:
    wire, records = Unowned(tmp_path), ht.Privacy(1.0, unit="record")
    for at in range(wire.clients):
        ht.Ledger.new(wire.ledger(at).path, 1.0, 1e-5)
        wire.ledger(at).set_limit(1.0, 1e-5, unit="record")
    assert wire.tune(method=ht.Vote(1, voters=2), privacy=records).dropped == {}
    with pytest.raises(ht.LedgerError, match="counts per record, .* fixed once something was charged"):
        wire.ledger(0).set_limit(1.0, 1e-5, unit="client")


def test_a_limit_in_the_ledger_is_enough(tmp_path: Path) -> None:
    wire = Unowned(tmp_path)
    for at in range(wire.clients):
        ht.Ledger.new(wire.ledger(at).path, 1.0, 1e-5)
    assert wire.tune(privacy=ht.Privacy(0.6)).dropped == {}
    with pytest.raises(AbortedError, match="its limit would be exceeded"):
        wire.tune(privacy=ht.Privacy(0.6), ledger=ht.Ledger.new(tmp_path / "fresh.db", 9.0, 1e-3))


def test_unit_and_relation_are_the_owners(tmp_path: Path) -> None:
    wire = Wire(tmp_path, policy=ht.Policy(epsilon=1.0))
    for asked, message in (
        (ht.Privacy(1.0, unit="record"), "unit must be 'client', which its limit is for, but got 'record'"),
        (ht.Privacy(1.0, neighbours="zero-out"), "neighbours must be 'replace-one', which its limit is for"),
    ):
        with pytest.raises(AbortedError, match=message):
            wire.tune(privacy=asked, method=ht.Vote(1, voters=1))
    assert untouched(wire)


@pytest.mark.parametrize("seal", [CLEAR, CURATOR], ids=lambda seal: seal.name)
def test_with_a_pinned_roster_a_lying_server_gets_no_ballot_under_another_seal(tmp_path: Path, seal: ht.Seal) -> None:
    """0.1 gave exact ballots to whoever asked under seal 'curator', within the ledger's limit."""
    wire = Wire(tmp_path, pinned=True, policy=ht.Policy(epsilon=1.0))
    ledger = ht.Ledger.new(tmp_path / "server.db", 9.0, 1e-3)
    with pytest.raises(AbortedError, match=f"under seal '{seal.name}' a server that lies can see"):
        wire.tune(seal=seal, ledger=ledger)
    assert untouched(wire)
    assert wire.tune(ledger=ledger).dropped == {}


def test_in_one_process_a_pinned_roster_means_the_same(tmp_path: Path) -> None:
    data = (np.zeros((4, 1)), np.full(4, 0.3))
    clients = [ht.Client(data, Wire.objective, name=f"c{at}", identity=ht.Identity.new()) for at in range(3)]
    given: dict[str, Any] = {"method": ht.Vote(1), "privacy": ht.Privacy(1.0), "observer": ht.Silent()}
    with pytest.raises(AbortedError, match="under seal 'curator' a server that lies can see"):
        ht.tune(clients, CANDIDATES, seal=ht.Curator(dropouts=0.0), home=tmp_path / "a", **given)
    for client in clients:
        client.policy = ht.Policy(seals=("curator",))
    assert ht.tune(clients, CANDIDATES, seal=ht.Curator(dropouts=0.0), home=tmp_path / "b", **given).dropped == {}


# ---- work --------------------------------------------------------------------------------------------


def test_runs_that_are_begun_and_never_charged_are_counted(tmp_path: Path) -> None:
    """In 0.1 a server could begin run after run, time how long each client scored, and never be charged."""
    wire = Wire(tmp_path, policy=ht.Policy(epsilon=1.0, delta=1e-5, unpaid=2))
    wire.fail = lambda trip, node: "lost" if trip == "shares" else None
    asked: dict[str, Any] = {
        "privacy": ht.Privacy(0.2, 1e-6),
        "ledger": ht.Ledger.new(tmp_path / "server.db", 9.0, 1e-3),
    }
    for _ in range(2):
        with pytest.raises(AbortedError, match="lost"):
            wire.tune(**asked)
    with pytest.raises(AbortedError, match="at most 2 runs may be begun and never charged"):
        wire.tune(**asked)
    wire.policy = ht.Policy(epsilon=1.0, delta=1e-5, unpaid=3)
    wire.fail = lambda trip, node: None
    assert wire.tune(**asked).dropped == {}
    assert wire.tune(**asked).dropped == {}  # the one before was charged: it does not count


def test_the_configs_of_all_steps_of_a_run_are_added_up(tmp_path: Path) -> None:
    enough = ht.Policy(exact=True, seals=("clear",), work=3 * len(CANDIDATES))
    wire = Wire(tmp_path / "enough", policy=enough)
    clear = ht.Clear(dropouts=0.4)
    assert wire.tune(method=ThreeVotes(), privacy=None, seal=clear).dropped == {}
    wire = Wire(tmp_path / "less", policy=ht.Policy(exact=True, seals=("clear",), work=3 * len(CANDIDATES) - 1))
    with pytest.raises(AbortedError, match="at most 32 configs are scored for a run, but got 33"):
        wire.tune(method=ThreeVotes(), privacy=None, seal=clear)


def test_what_a_client_does_for_a_run_is_on_record_before_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire, prepare, seen = Wire(tmp_path), Endpoint._prepare, []

    def noted(self: Endpoint, request: Any, party: Any) -> None:
        with closing(sqlite3.connect(party.folder / "work.db")) as db:
            seen.extend(db.execute("SELECT run, step, configs FROM work WHERE run=?", (request.run,)))
        prepare(self, request, party)

    monkeypatch.setattr(Endpoint, "_prepare", noted)
    result = wire.tune()
    assert set(seen) == {(result.run, 0, len(CANDIDATES))}


def test_seconds_of_scoring_are_kept_from_message_to_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(tmp_path, policy=ht.Policy(exact=True, seals=("clear",), seconds=100.0))
    allowed = []

    def fill(self: ht.Search, parties: Any, *given: Any, **named: Any) -> None:
        allowed.append(round(parties[0].allowance.seconds - parties[0].allowance.used))
        parties[0].allowance.used += 30.0

    monkeypatch.setattr(ht.Search, "fill", fill)
    wire.tune(method=ThreeVotes(), privacy=None, seal=ht.Clear(dropouts=0.4))
    assert allowed == [100] * 5 + [70] * 5 + [40] * 5


@pytest.mark.parametrize("private", [True, False], ids=["epsilon", "exact"])
def test_a_client_that_takes_too_long_has_failed(tmp_path: Path, private: bool) -> None:
    """With an epsilon nobody sees it; without one the client says that it failed."""
    privacy = ht.Privacy(1.0) if private else None
    policy = ht.Policy(seconds=0.5, **({"epsilon": 1.0, "delta": 1e-5} if private else {"exact": True}))
    wire = Wire(tmp_path, policy=policy, objective=endless)
    wire.clients = 2
    try:
        dropped = wire.tune(privacy=privacy).dropped
    except AbortedError as error:
        assert not private
        assert "objective failed; see the client's own log" in str(error)
    else:
        assert private
        assert dropped == {}
    log = (tmp_path / "machine-0" / "clients" / "client-0" / "client.log").read_text()
    assert "scoring took longer than the client's policy allows" in log


@ht.objective
def endless(config: ht.Config, data: ht.Rows) -> float:
    while True:
        pass


def test_a_message_that_is_refused_in_the_end_scores_no_other_candidates(tmp_path: Path) -> None:
    """Its form is looked at after scoring; a second one must not be scored for free."""
    wire = Wire(tmp_path, pinned=True, policy=ht.Policy(epsilon=1.0, delta=1e-5, work=len(CANDIDATES), unpaid=1))
    letters: list[bytes] = []

    def keep(trip: str, node: str, content: bytes, is_answer: bool) -> bytes:
        if trip == "keys" and not is_answer:
            letters.append(content)
        return content

    wire.tamper = keep
    wire.tune(privacy=ht.Privacy(0.2, 1e-6))
    header, parts = unpack(Letter.from_bytes(letters[0]).message)
    header["run"] = "f" * 32
    reasons = []
    for low in (0.0, 0.1, 0.2):
        asked = {**unpack(parts[-1])[0], "run": "f" * 32}
        other = ht.Space(x=ht.Float(low, 1.0)).grid(x=11)
        asked["query"] = query_to_json(TopVotes(1, other, 0))
        message = Letter(pack(header, b"junk", pack(asked)), None).to_bytes()
        reasons.append(reason_of(wire.deliver(wire.nodes[0], message)))
    assert "must have 1 parts" in reasons[0]
    assert all("begun for another request" in reason for reason in reasons[1:])


def test_a_run_that_costs_nothing_is_refused(tmp_path: Path) -> None:
    """With one candidate every ballot is the same: it would be asked for its timing only."""
    wire = Wire(tmp_path, policy=ht.Policy(epsilon=1.0, delta=1e-5))
    with pytest.raises(AbortedError, match="a run that costs nothing says nothing"):
        wire.tune(method=ht.Vote(k=len(CANDIDATES), decode="argmax"))
    assert untouched(wire)


def test_without_a_roster_the_cohort_is_the_servers_word(tmp_path: Path) -> None:
    wire = Wire(tmp_path, policy=ht.Policy(epsilon=1.0, delta=1e-5, smallest_cohort=2))
    with pytest.raises(AbortedError, match="smallest_cohort needs a pinned roster"):
        wire.tune()
