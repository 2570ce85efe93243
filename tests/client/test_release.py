"""The one way out: order of events, bounds, failures, hostile requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.client.harness import CANDIDATES, EVENTS, NOISE, PRIVACY, ROSTER, RUN, party, refusal, request

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.release import contribution, respond
from hushtune.client.request import Request
from hushtune.client.rows import WHOLE
from hushtune.core.errors import BoundError
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.roster import Roster
from hushtune.core.wire import pack, unpack
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.bounds import KHot
from hushtune.privacy.events.sums import SkellamShift
from hushtune.privacy.noise.base import Noise, skellam
from hushtune.seals.clear import Clear
from hushtune.seals.plain import vector_of
from hushtune.seals.threshold.wire import packed


def test_a_contribution_is_the_ballot_plus_noise_and_charged_before(tmp_path: Path) -> None:
    inside = party(tmp_path)
    vector = vector_of(respond(request().to_bytes(), inside, ROSTER), 5)
    assert vector.shape == (5,)
    assert inside.ledger is not None
    (entry,) = inside.ledger.entries()
    assert entry.charge.events == EVENTS
    assert inside.ledger.limit() == PRIVACY.budget


def test_without_epsilon_the_ballot_is_exact_and_that_is_on_record(tmp_path: Path) -> None:
    inside = party(tmp_path)
    message = request(noise=Noise(0.0), privacy=None, events=()).to_bytes()
    assert vector_of(respond(message, inside, ROSTER), 5).tolist() == [1, 1, 0, 0, 0]
    assert inside.ledger is not None
    assert [entry.charge.exact for entry in inside.ledger.entries()] == [True]
    assert inside.ledger.limit() is None


@pytest.mark.statistical
def test_the_share_is_calibrated_to_the_honest_answers_of_the_clients_own_roster(tmp_path: Path) -> None:
    """Variance of one share at n=10, dropouts .2, corrupt .1: scale^2 / 7. Normal approximation at 6 sigma."""
    size, runs = 500, 15  # as many integers as 1,500 short ballots have
    inside = party(tmp_path, np.arange(float(size)))
    inside.ledger = None
    inside.randomness = SimulatedRandomness(1, "share")
    roster = Roster(tuple("abcdefghij"))
    seal, query = Clear(dropouts=0.2, corrupt=0.1), TopVotes(2, ht.Space(x=ht.Float(0.0, 1.0)).grid(x=size), 0)
    replies = []
    for run in range(runs):
        message = request(run=f"{run:032x}", roster=roster.digest(), seal=seal, query=query).to_bytes()
        replies.append(vector_of(respond(message, inside, roster), size) - np.repeat([1, 0], [2, size - 2]))
    expected = NOISE.variance / 7
    spread = np.sqrt((2 + 1 / expected) / (size * runs))
    assert abs(np.var(replies) / expected - 1) < 6 * spread


def test_a_retransmission_is_byte_identical_and_charged_once(tmp_path: Path) -> None:
    inside, message = party(tmp_path), request().to_bytes()
    assert respond(message, inside, ROSTER) == respond(message, inside, ROSTER)
    restarted = party(tmp_path)
    assert respond(message, restarted, ROSTER) == respond(message, inside, ROSTER)
    assert restarted.ledger is not None
    assert len(restarted.ledger.entries()) == 1


def test_a_step_is_never_answered_for_two_requests(tmp_path: Path) -> None:
    inside = party(tmp_path)
    respond(request().to_bytes(), inside, ROSTER)
    changed = request(seal=Clear(dropouts=0.2)).to_bytes()
    assert "for another request" in refusal(respond(changed, inside, ROSTER))


def test_nothing_leaves_before_it_is_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, message = party(tmp_path), request().to_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(ht.Ledger, "commit", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
        assert "internal error" in refusal(respond(message, inside, ROSTER))
    assert inside.ledger is not None
    assert inside.ledger.entries() == []
    first = respond(message, inside, ROSTER)
    monkeypatch.setattr(skellam, "sample", lambda *a: pytest.fail("a second draw"))
    assert respond(message, party(tmp_path), ROSTER) == first


def test_another_seals_request_does_not_pass_in_the_clear(tmp_path: Path) -> None:
    message = request(seal=ht.Masked()).to_bytes()
    assert "must come through that seal" in refusal(respond(message, party(tmp_path), ROSTER))


def test_a_second_run_beyond_the_limit_is_refused_without_a_path(tmp_path: Path) -> None:
    inside = party(tmp_path)
    respond(request().to_bytes(), inside, ROSTER)
    reason = refusal(respond(request(run="1" * 32).to_bytes(), inside, ROSTER))
    assert reason == "ledger: its limit would be exceeded; see the client's own log"
    assert str(tmp_path) in (tmp_path / "a" / "client.log").read_text()


def test_a_limited_ledger_refuses_a_release_without_epsilon(tmp_path: Path) -> None:
    inside = party(tmp_path)
    respond(request().to_bytes(), inside, ROSTER)
    bare = request(run="1" * 32, noise=Noise(0.0), privacy=None, events=()).to_bytes()
    assert "its limit would be exceeded" in refusal(respond(bare, inside, ROSTER))


def test_a_refused_request_never_reaches_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = party(tmp_path)
    respond(request().to_bytes(), inside, ROSTER)
    monkeypatch.setattr(Party, "losses", lambda *a: pytest.fail("looked at data"))
    refusal(respond(request(run="1" * 32).to_bytes(), inside, ROSTER))
    refusal(respond(request(run="1" * 32, noise=Noise(0.0), privacy=None, events=()).to_bytes(), inside, ROSTER))


def test_a_damaged_ledger_is_refused_without_a_path(tmp_path: Path) -> None:
    inside = party(tmp_path)
    respond(request().to_bytes(), inside, ROSTER)
    assert inside.ledger is not None
    inside.ledger.path.write_bytes(b"x" * 9000)
    reason = refusal(respond(request(run="1" * 32).to_bytes(), inside, ROSTER))
    assert reason == "ledger: it cannot be used; see the client's own log"


FAILURES = [
    RuntimeError("secret 42"),
    np.array([1.0, 2.0]),
    np.array(["a"] * 5),
    None,
    MemoryError("secret 42"),
    SystemExit("secret 42"),
    RuntimeError("secret \udc80"),
]


@pytest.mark.parametrize("outcome", FAILURES, ids=lambda o: type(o).__name__)
def test_with_epsilon_a_failure_is_a_random_ballot_and_the_reason_stays_local(tmp_path: Path, outcome: Any) -> None:
    inside = party(tmp_path, [outcome] if outcome is None else outcome)
    reply = respond(request().to_bytes(), inside, ROSTER)
    assert vector_of(reply, 5).shape == (5,)
    assert b"secret" not in reply
    assert "no answer to 'top-votes'" in (tmp_path / "a" / "client.log").read_text()


def test_without_epsilon_a_failing_client_is_named_with_its_reason(tmp_path: Path) -> None:
    message = request(noise=Noise(0.0), privacy=None, events=()).to_bytes()
    reason = refusal(respond(message, party(tmp_path, RuntimeError("disk full")), ROSTER))
    assert reason == "objective failed; see the client's own log"
    assert "RuntimeError: disk full" in (tmp_path / "a" / "client.log").read_text()


@pytest.mark.parametrize(
    "vector", [[2, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 0], [1.0, 1, 0, 0, 0], [3, -1, 0, 0, 0]]
)
def test_the_bound_is_enforced_whatever_a_query_answers(tmp_path: Path, vector: list[float]) -> None:
    class Cheat(TopVotes):
        def answer(self, party: Party) -> Any:
            return np.array(vector)

    cheat = Cheat(2, CANDIDATES, 0)
    with pytest.raises(BoundError):
        cheat.bound.check(np.array(vector))
    with pytest.raises(ht.RefusedError):
        contribution(cheat, party(tmp_path), WHOLE, private=False)
    ballot = contribution(cheat, party(tmp_path), WHOLE, private=True)
    assert sorted(ballot.tolist()) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"roster": Roster(("a", "b", "c")).digest()}, "roster is not the one"),
        ({"noise": Noise(NOISE.scale * 0.9)}, "not what the run announced"),
        ({"noise": Noise(0.1), "events": (SkellamShift(0.1 * 0.1, 4),)}, "more than the stated 2"),
        ({"noise": Noise(0.0), "events": (SkellamShift(0.0, 4),)}, "costs epsilon inf"),
        ({"events": (*EVENTS, *EVENTS)}, "more than the stated 2"),
        ({"events": ()}, "not what the run announced"),
        ({"events": (SkellamShift(NOISE.variance, 2),)}, "not what the run announced"),
        ({"step": 1}, "not what the run announced"),
        ({"step": -1}, "not what the run announced"),
        ({"voters": 5}, "a client has one voter if unit is 'client', but got voters=5"),
        ({"privacy": None}, "without epsilon must have no noise"),
        ({"run": "../../x"}, "32 hex digits"),
        ({"privacy": ht.Privacy(2.0, delta=0.05)}, "`delta <= 0.001` must hold"),
        ({"seal": Clear(dropouts=0.6, corrupt=0.6)}, "leave an honest client"),
    ],
)
def test_requests_that_would_weaken_the_guarantee_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    inside = party(tmp_path)
    assert message in refusal(respond(request(**changes).to_bytes(), inside, ROSTER))
    assert inside.ledger is not None
    assert not inside.ledger.exists or not inside.ledger.entries()


@pytest.mark.parametrize("policy", [ht.Policy(opt_out=True), ht.Policy(epsilon=1.0), ht.Policy(smallest_cohort=3)])
def test_the_clients_policy_comes_first(tmp_path: Path, policy: ht.Policy) -> None:
    inside = party(tmp_path, policy=policy)
    assert "policy:" in refusal(respond(request().to_bytes(), inside, ROSTER))
    assert inside.ledger is not None
    assert not inside.ledger.exists


def mutated(field: str, value: Any) -> bytes:
    header, _ = unpack(request().to_bytes())
    if value is None:
        del header[field]
    else:
        header[field] = value
    return pack(header)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"garbage",
        pack({}),
        pack({"kind": "request"}),
        pack({"kind": "vector"}),
        *[mutated(field, None) for field in ("run", "step", "roster", "query", "seal", "scale", "privacy", "events")],
        mutated("scale", "big"),
        mutated("scale", -1.0),
        mutated("step", True),
        mutated("step", 0.5),
        mutated("extra", 1),
        mutated("events", 7),
        mutated("events", [{"event": "free"}]),
        mutated("events", [{"event": "skellam-shift", "variance": 1.0, "coordinates": True}]),
        mutated("events", [{"event": "skellam-shift", "variance": 1e300, "coordinates": 4}]),
        mutated("events", [{"event": "skellam-shift", "variance": 4.0, "coordinates": 4}] * 10_001),
        mutated("events", [{"event": "skellam-shift", "variance": "x", "coordinates": 4}]),
        mutated("query", {"query": "everything", "version": 1}),
        mutated("query", {"query": "top-votes", "version": 2}),
        mutated("query", {"query": "top-votes", "version": 1}),
        mutated("seal", {"name": "none"}),
        mutated("seal", {"name": "clear", "extra": 1}),
        mutated("privacy", {"epsilon": 1.0, "level": "high"}),
        mutated("privacy", {"epsilon": "1"}),
        mutated("privacy", []),
    ],
)
def test_anything_that_is_not_a_request_is_refused_and_costs_nothing(tmp_path: Path, message: bytes) -> None:
    inside = party(tmp_path)
    refusal(respond(message, inside, ROSTER))
    assert inside.ledger is not None
    assert not inside.ledger.exists


def test_a_request_survives_the_wire() -> None:
    assert Request.from_bytes(request().to_bytes()) == request()
    assert json.loads(json.dumps(unpack(request().to_bytes())[0]))["kind"] == "request"


def test_ballots_that_must_overlap_cost_less() -> None:
    assert KHot(4, 5).event(NOISE, "replace-one") == SkellamShift(NOISE.variance, 2)
    assert KHot(5, 5).event(NOISE, "replace-one") == SkellamShift(NOISE.variance, 0)
    assert KHot(2, 5).event(NOISE, "zero-out") == SkellamShift(NOISE.variance, 2)
    assert KHot(2, 5).event(NOISE, "replace-one") == SkellamShift(NOISE.variance, 4)


def test_every_pair_of_ballots_is_within_the_event() -> None:
    """Brute force over all ballots of up to 6 candidates: no replacement changes more counts, none by over 1."""
    from itertools import combinations, product

    for length, k in product(range(1, 7), range(1, 7)):
        if k > length:
            continue
        ballots = [np.isin(np.arange(length), chosen).astype(int) for chosen in combinations(range(length), k)]
        changes = [np.abs(a - b) for a in ballots for b in ballots]
        event = KHot(k, length).event(Noise(1.0), "replace-one")
        assert isinstance(event, SkellamShift)
        assert max(change.sum() for change in changes) == event.coordinates
        assert max(change.max() for change in changes) <= 1


def test_a_server_cannot_ask_for_less_smudging_than_the_policy_allows(tmp_path: Path) -> None:
    """Refused before there is any key share, so before OpenFHE is needed."""
    wanted = request(seal=ht.Threshold(smudging=0.0), privacy=None, noise=Noise(0.0), events=()).to_bytes()
    header = {"kind": "threshold", "run": RUN, "trip": "keys", "round": 0, "turn": 0, "last": False}
    name = ROSTER.ids[0]
    strict = party(tmp_path, policy=ht.Policy(smudging=100.0), name=name)
    assert "policy: smudging must reach 100 bits" in refusal(respond(packed(header, wanted), strict, ROSTER))


def test_a_client_without_openfhe_says_so_and_not_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUSHTUNE_MHE", str(tmp_path / "nowhere"))
    wanted = request(seal=ht.Threshold(), privacy=None, noise=Noise(0.0), events=()).to_bytes()
    header = {"kind": "threshold", "run": RUN, "trip": "keys", "round": 0, "turn": 0, "last": False}
    reason = refusal(respond(packed(header, wanted), party(tmp_path, name=ROSTER.ids[0]), ROSTER))
    assert reason == "OpenFHE is not set up on this client; run `hushtune mhe setup` there"
