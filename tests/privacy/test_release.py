"""The one way out: order of events, bounds, failures, hostile requests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.client import Party
from hushtune.errors import BoundError
from hushtune.methods.vote import TopVotes
from hushtune.privacy import skellam
from hushtune.privacy.accounting import SkellamShift, Sums
from hushtune.privacy.noise import Noise
from hushtune.privacy.release import Request, contribution, respond
from hushtune.query import KHot
from hushtune.randomness import SimulatedRandomness, SystemRandomness
from hushtune.roster import Roster
from hushtune.rows import WHOLE
from hushtune.run import calibrate, plan_of
from hushtune.seals.clear import Clear, vector_of
from hushtune.trials import TrialStore
from hushtune.wire import pack, unpack

CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
QUERY = TopVotes(2, CANDIDATES, 0)
PRIVACY = ht.Privacy(2.0)
NOISE = calibrate((QUERY.bound,), PRIVACY, Sums())
PLAN = plan_of((QUERY.bound,), PRIVACY, NOISE)
ROSTER = Roster(("a", "b"))
RUN = "0" * 32


class Loss:
    """Returns what it is told to, or raises it."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def fingerprint(self) -> str:
        return repr(self.outcome)

    def losses(self, configs: Sequence[ht.Config], data: Any, seed: int) -> Any:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def party(tmp_path: Path, outcome: Any = None, policy: ht.Policy | None = None, name: str = "a") -> Party:
    losses = np.arange(5.0) if outcome is None else outcome
    client = ht.Client((np.zeros((1, 1)), np.zeros(1)), Loss(losses), policy=policy)
    return Party(
        name,
        client,
        TrialStore(tmp_path / "trials.db"),
        tmp_path / name,
        SystemRandomness(),
        ht.Ledger(tmp_path / name / "ledger.db"),
    )


def request(**changes: Any) -> Request:
    return replace(Request(RUN, 0, ROSTER.digest(), QUERY, Clear(), NOISE, PRIVACY, 1, PLAN), **changes)


def refusal(reply: bytes) -> str:
    header, parts = unpack(reply)
    assert header["kind"] == "refused"
    assert not parts
    return str(header["reason"])


def test_a_contribution_is_the_ballot_plus_noise_and_charged_before(tmp_path: Path) -> None:
    inside = party(tmp_path)
    vector = vector_of(respond(request().to_bytes(), inside, ROSTER), 5)
    assert vector.shape == (5,)
    assert inside.ledger is not None
    (entry,) = inside.ledger.entries()
    assert entry.charge.events == PLAN
    assert inside.ledger.limit() == PRIVACY.budget


def test_without_epsilon_the_ballot_is_exact_and_that_is_on_record(tmp_path: Path) -> None:
    inside = party(tmp_path)
    message = request(noise=Noise(0.0), privacy=None, plan=()).to_bytes()
    assert vector_of(respond(message, inside, ROSTER), 5).tolist() == [1, 1, 0, 0, 0]
    assert inside.ledger is not None
    assert [entry.charge.exact for entry in inside.ledger.entries()] == [True]
    assert inside.ledger.limit() is None


@pytest.mark.statistical
def test_the_share_is_calibrated_to_the_honest_answers_of_the_clients_own_roster(tmp_path: Path) -> None:
    """Variance of one share at n=10, dropouts .2, corrupt .1: scale^2 / 7. Normal approximation at 6 sigma."""
    inside = party(tmp_path)
    inside.ledger = None
    inside.randomness = SimulatedRandomness(1, "share")
    roster = Roster(tuple("abcdefghij"))
    seal, runs = Clear(dropouts=0.2, corrupt=0.1), 1_500
    replies = []
    for run in range(runs):
        message = request(run=f"{run:032x}", roster=roster.digest(), seal=seal).to_bytes()
        replies.append(vector_of(respond(message, inside, roster), 5) - [1, 1, 0, 0, 0])
    expected = NOISE.variance / 7
    spread = np.sqrt((2 + 1 / expected) / (5 * runs))
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
    bare = request(run="1" * 32, noise=Noise(0.0), privacy=None, plan=()).to_bytes()
    assert "its limit would be exceeded" in refusal(respond(bare, inside, ROSTER))


def test_a_refused_request_never_reaches_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = party(tmp_path)
    respond(request().to_bytes(), inside, ROSTER)
    monkeypatch.setattr(Party, "losses", lambda *a: pytest.fail("looked at data"))
    refusal(respond(request(run="1" * 32).to_bytes(), inside, ROSTER))
    refusal(respond(request(run="1" * 32, noise=Noise(0.0), privacy=None, plan=()).to_bytes(), inside, ROSTER))


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
    message = request(noise=Noise(0.0), privacy=None, plan=()).to_bytes()
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
        ({"noise": Noise(NOISE.scale * 0.9)}, "not what the run's plan announced"),
        ({"noise": Noise(0.1), "plan": (SkellamShift(0.1 * 0.1, 4),)}, "more than the stated 2"),
        ({"noise": Noise(0.0), "plan": (SkellamShift(0.0, 4),)}, "costs epsilon inf"),
        ({"plan": (*PLAN, *PLAN)}, "more than the stated 2"),
        ({"plan": ()}, "not what the run's plan announced"),
        ({"plan": (SkellamShift(NOISE.variance, 2),)}, "not what the run's plan announced"),
        ({"step": 1}, "not what the run's plan announced"),
        ({"step": -1}, "not what the run's plan announced"),
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
        *[mutated(field, None) for field in ("run", "step", "roster", "query", "seal", "scale", "privacy", "plan")],
        mutated("scale", "big"),
        mutated("scale", -1.0),
        mutated("step", True),
        mutated("step", 0.5),
        mutated("extra", 1),
        mutated("plan", 7),
        mutated("plan", [{"event": "free"}]),
        mutated("plan", [{"event": "skellam-shift", "variance": 1.0, "coordinates": True}]),
        mutated("plan", [{"event": "skellam-shift", "variance": 1e300, "coordinates": 4}]),
        mutated("plan", [{"event": "skellam-shift", "variance": 4.0, "coordinates": 4}] * 10_001),
        mutated("plan", [{"event": "skellam-shift", "variance": "x", "coordinates": 4}]),
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


# ---- the masked way out ------------------------------------------------------------------------------

MASKED = ht.Masked()
THREE = Roster(("a", "b", "c"))


def masked_request(**changes: Any) -> Request:
    return request(**{"seal": MASKED, "roster": THREE.digest(), **changes})


def masked_run(tmp_path: Path, tamper: Any = None) -> tuple[Any, dict[str, Party], list[tuple[str, str, bytes]]]:
    """Three clients through `respond`, everything the server sends or gets recorded."""
    parties = {name: party(tmp_path, name=name) for name in THREE.ids}
    view: list[tuple[str, str, bytes]] = []

    def exchange(trip: str, out: Any) -> dict[str, bytes]:
        replies = {}
        for name, message in out.items():
            view.append((trip, name, message))
            replies[name] = respond(tamper(trip, name, message) if tamper else message, parties[name], THREE)
        return replies

    session = MASKED.session(RUN, THREE, masked_request().terms())
    outcome = session.sum(masked_request().to_bytes(), 5, 32, exchange, True)
    return outcome, parties, view


def test_a_masked_run_is_charged_once_and_its_messages_are_answered_once(tmp_path: Path) -> None:
    (total, missing), parties, view = masked_run(tmp_path)
    assert not missing
    assert np.abs(total - [3, 3, 0, 0, 0]).max() < 60
    for inside in parties.values():
        assert inside.ledger is not None
        assert len(inside.ledger.entries()) == 1
    for _, name, message in view:  # the same bytes again, also after a restart that lost the session
        assert respond(message, parties[name], THREE) == respond(message, party(tmp_path, name=name), THREE)


def test_lost_state_means_refusal(tmp_path: Path) -> None:
    def forgetful(trip: str, name: str, message: bytes) -> bytes:
        if (trip, name) == ("input", "b"):
            lost.append(respond(message, party(tmp_path, name="b"), THREE))
        return message

    lost: list[bytes] = []
    masked_run(tmp_path, forgetful)
    assert refusal(lost[0]) == "this client has no part in that run, or its state is lost"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": Noise(NOISE.scale * 0.9)}, "not what the run's plan announced"),
        ({"roster": Roster(tuple("abcdefghij")).digest()}, "roster is not the one"),
        ({"seal": Clear()}, "not of this run and seal"),
        ({"run": "1" * 32}, "not of this run and seal"),
    ],
)
@pytest.mark.parametrize("trip", ["keys", "input"])
def test_a_request_is_checked_in_every_trip_that_carries_it(
    tmp_path: Path, changes: dict[str, Any], message: str, trip: str
) -> None:
    """Swapping the request after the keys were made does not get past the checks."""
    other = masked_request(**changes).to_bytes()

    def swap(t: str, name: str, content: bytes) -> bytes:
        if t != trip or name != "b":
            return content
        header, parts = unpack(content)
        return pack(header, *parts[:-1], other)

    with pytest.raises(ht.AbortedError, match=f"{message}|is not what the run began with"):
        masked_run(tmp_path, swap)


def masked_opening(parties: dict[str, Party], first_round: int, asked: Request) -> Any:
    """A server that starts at a round of its choice; what it opened, or why not."""
    session = MASKED.session(RUN, THREE, asked.terms(), first_round)
    try:
        return session.sum(
            asked.to_bytes(), 5, 32, lambda trip, out: {n: respond(m, parties[n], THREE) for n, m in out.items()}, True
        )
    except ht.AbortedError as error:
        return str(error)


def test_a_step_is_opened_once_whatever_round_seal_or_process_asks(tmp_path: Path) -> None:
    """The server chooses rounds; the plan's step is what counts."""
    parties = {name: party(tmp_path, name=name) for name in THREE.ids}
    assert isinstance(masked_opening(parties, 0, masked_request()), tuple)
    assert "answered already, for another request" in masked_opening(parties, 5, masked_request())
    restarted = {name: party(tmp_path, name=name) for name in THREE.ids}
    assert "answered already, for another request" in masked_opening(restarted, 9, masked_request())
    clear = respond(masked_request(seal=Clear()).to_bytes(), parties["a"], THREE)
    assert "answered already, for another request" in refusal(clear)


def test_a_seal_with_too_few_neighbours_is_refused_unless_the_policy_allows_it(tmp_path: Path) -> None:
    few = masked_request(seal=ht.Masked(neighbours=1))
    message = pack({"kind": "masked", "run": RUN, "trip": "keys", "round": 0}, few.to_bytes())
    assert "insecure=True" in refusal(respond(message, party(tmp_path), THREE))
    none_corrupt = masked_request(seal=ht.Masked(corrupt=0.0))
    message = pack({"kind": "masked", "run": RUN, "trip": "keys", "round": 0}, none_corrupt.to_bytes())
    assert "`corrupt >= 0.1` must hold" in refusal(respond(message, party(tmp_path), THREE))


def test_the_terms_of_a_run_cannot_change_between_trips(tmp_path: Path) -> None:
    """Keys agreed for one share of dropouts, the input asked for with another: the noise share would be too small."""
    other = masked_request(seal=ht.Masked(dropouts=0.0)).to_bytes()

    def swap(trip: str, name: str, content: bytes) -> bytes:
        if trip != "input" or name != "b":
            return content
        header, parts = unpack(content)
        return pack(header, *parts[:-1], other)

    with pytest.raises(ht.AbortedError, match="is not what the run began with"):
        masked_run(tmp_path, swap)


def test_the_next_step_is_taken_up_by_a_server_that_was_interrupted(tmp_path: Path) -> None:
    """Server and clients restart after step 0: the run goes on with rounds that no client has seen."""
    plan = PLAN * 2
    both = {"plan": plan, "privacy": ht.Privacy(5.0)}
    parties = {name: party(tmp_path, name=name) for name in THREE.ids}
    assert isinstance(masked_opening(parties, 0, masked_request(**both)), tuple)
    restarted = {name: party(tmp_path, name=name) for name in THREE.ids}
    assert "answered already" in masked_opening(restarted, 0, masked_request(step=1, **both))
    total, missing = masked_opening(restarted, 1_000_000, masked_request(step=1, **both))
    assert not missing
    assert np.abs(total - [3, 3, 0, 0, 0]).max() < 60


def test_a_run_whose_secrets_were_forgotten_is_refused_even_without_a_ledger(tmp_path: Path) -> None:
    inside = party(tmp_path)
    inside.ledger = None
    keys = {"kind": "masked", "trip": "keys", "round": 0}
    for number in range(20):
        run = f"{number:032x}"
        reply = respond(pack({**keys, "run": run}, masked_request(run=run).to_bytes()), inside, THREE)
        assert unpack(reply)[0]["kind"] == "keys"
    first = f"{0:032x}"
    reply = respond(pack({**keys, "run": first, "round": 1}, masked_request(run=first).to_bytes()), inside, THREE)
    assert "state is lost" in refusal(reply)
    assert sum(session is not None for session in inside.sessions.values()) == 16
