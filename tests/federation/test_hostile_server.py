"""A server that lies, against clients that find themselves in a new process for every message."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.federation.harness import ThreeVotes, Wire, reason_of, trip_of

import hushtune as ht
from hushtune.core.roster import Roster
from hushtune.core.wire import pack, unpack
from hushtune.federation.envelope import Answer, Letter
from hushtune.privacy.anchor import Anchor
from hushtune.privacy.ledger_rows import state_of
from hushtune.seals.masked import crypto, shamir
from hushtune.seals.masked.pact import ADVERT_BYTES, SIGNATURE_BYTES, Members, by_number, to_numbers


def edited(letter: bytes, change: Callable[[dict[str, Any], list[bytes]], None]) -> bytes:
    """The letter with another message in it."""
    outer = Letter.from_bytes(letter)
    header, parts = unpack(outer.message)
    change(header, parts)
    return Letter(pack(header, *parts), outer.nodes).to_bytes()


def without(*numbers: int, clients: int = 5) -> bytes:
    """A list of clients as the server tells it, without some."""
    return Members.of(set(range(clients)) - set(numbers), clients).bits


def tells(list_: bytes) -> Callable[[dict[str, Any], list[bytes]], None]:
    def change(header: dict[str, Any], parts: list[bytes]) -> None:
        parts[0] = list_

    return change


def sent(wire: Wire, trip: str, node: str) -> bytes:
    """The letter that a node got in a trip."""
    return next(seen.letter for seen in wire.seen if (seen.trip, seen.node) == (trip, node))


def stopped_before(wire: Wire, trip: str, **settings: Any) -> dict[str, bytes]:
    """A run whose server stops before a trip; the letters it would have sent."""
    letters: dict[str, bytes] = {}
    carry = wire.carry

    def stop(out: Any) -> Any:
        if trip_of(next(iter(out.values()))) == trip:
            letters.update(out)
            raise KeyboardInterrupt
        return carry(out)

    wire.carry = stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        wire.tune(**settings)
    wire.carry = carry  # type: ignore[method-assign]
    return letters


# ---- asking twice ------------------------------------------------------------------------------------


def test_both_kinds_of_shares_of_one_client_are_not_to_be_had(tmp_path: Path) -> None:
    """After the shares of one kind, the other is refused: with the state of now, of before, and with none."""
    wire = Wire(tmp_path)
    letters = stopped_before(wire, "unmask")
    before = dict(wire.states)
    first = wire.deliver("node-100", letters["node-100"])
    assert not reason_of(first)
    other = edited(letters["node-100"], tells(without(3)))
    for state in (wire.states["node-100"], before["node-100"], b""):
        answer, _ = wire.endpoint("node-100").reply(other, state)
        assert "step '0 unmask' of this run was answered already" in reason_of(answer)
    again, _ = wire.endpoint("node-100").reply(letters["node-100"], b"")
    assert again == first


@pytest.mark.parametrize("trip", ["keys", "shares", "input"])
def test_a_trip_is_answered_once(tmp_path: Path, trip: str) -> None:
    """Another message for a trip that was answered is refused, whatever state the client is put back to."""
    wire = Wire(tmp_path)
    before: dict[str, bytes] = {}

    def keep(t: str, node: str, content: bytes, is_answer: bool) -> bytes:
        if t == trip and not is_answer:
            before[node] = wire.states.get(node, b"")
        return content

    wire.tamper = keep
    wire.tune()
    letter = sent(wire, trip, "node-101")

    def change(header: dict[str, Any], parts: list[bytes]) -> None:
        header["last"] = not header.get("last")

    for state in (before["node-101"], wire.states["node-101"], b""):
        answer, _ = wire.endpoint("node-101").reply(edited(letter, change), state)
        assert "answered already, for another request" in reason_of(answer)


def test_a_round_begun_anew_gives_no_second_noisy_input(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    stopped_before(wire, "unmask")

    def next_round(header: dict[str, Any], parts: list[bytes]) -> None:
        header["round"] += 1

    for state in (wire.states["node-102"], b""):
        for trip in ("keys", "input"):
            answer, _ = wire.endpoint("node-102").reply(edited(sent(wire, trip, "node-102"), next_round), state)
            assert "answered already, for another request" in reason_of(answer)


def test_a_message_of_another_run_is_refused_and_keeps_the_state(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    letters = stopped_before(wire, "input")
    kept = wire.states["node-101"]

    def other_run(header: dict[str, Any], parts: list[bytes]) -> None:
        header["run"] = "f" * 32

    assert "not of this run" in reason_of(wire.deliver("node-101", edited(letters["node-101"], other_run)))
    assert wire.states["node-101"] == kept
    assert not reason_of(wire.deliver("node-101", letters["node-101"]))


# ---- who takes part ----------------------------------------------------------------------------------


def test_an_inflated_roster_is_refused_if_pinned(tmp_path: Path) -> None:
    """More clients would mean less noise from each. The client's own roster counts, never the server's."""
    wire = Wire(tmp_path, pinned=True)
    honest = wire.federation()
    assert wire.roster is not None
    assert wire.roster.keys is not None
    ghosts = [ht.Identity.new() for _ in range(95)]
    names = (*wire.roster.ids, *(f"ghost-{at}" for at in range(95)))
    inflated = Roster(names, (*wire.roster.keys, *(g.public for g in ghosts)), wire.roster.seed)
    honest.roster = inflated
    with pytest.raises(ht.AbortedError):
        wire.tune(honest, seal=ht.Masked())
    assert {reason_of(seen.answer) for seen in wire.seen} == {
        "the request's roster is not the one this client was given"
    }
    nodes = tuple(f"node-{at}" for at in range(1_000))
    answer = wire.deliver("node-101", Letter(Letter.from_bytes(wire.seen[0].letter).message, nodes).to_bytes())
    assert reason_of(answer) == "the request's roster is not the one this client was given"


def test_a_roster_that_grows_in_the_middle_is_not_taken_over(tmp_path: Path) -> None:
    """Unpinned, the client takes the server's word for who takes part: once, at the beginning."""
    wire = Wire(tmp_path)
    letters = stopped_before(wire, "input")
    more = (*wire.nodes, *(f"node-{at}" for at in range(500, 600)))
    outer = Letter.from_bytes(letters["node-100"])
    _, parts = unpack(outer.message)
    header, _ = unpack(parts[-1])
    header["roster"] = Roster(more).digest()
    message = pack(unpack(outer.message)[0], *parts[:-1], pack(header))
    answer = wire.deliver("node-100", Letter(message, more).to_bytes())
    assert reason_of(answer) == "the request's roster is not the one this client was given"


def test_a_client_that_is_not_named_or_told_nothing_refuses(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    wire.tune()
    message = Letter.from_bytes(wire.seen[0].letter).message
    strangers = Letter(message, ("node-1", "node-2")).to_bytes()
    assert reason_of(wire.deliver("node-100", strangers)) == "the roster does not name this client"
    assert "the server names no nodes" in reason_of(wire.deliver("node-100", Letter(message, None).to_bytes()))
    for junk in (b"", b"junk", pack({"kind": "to-client", "nodes": 3}, message), pack({"kind": "to-client"}, message)):
        assert reason_of(wire.deliver("node-100", junk))
    twice = Letter(message, ("node-100", "node-100")).to_bytes()
    assert "name each client once" in reason_of(wire.deliver("node-100", twice))


def test_swapped_public_keys_are_refused_if_pinned(tmp_path: Path) -> None:
    wire = Wire(tmp_path, pinned=True)
    evil = crypto.public_of(crypto.private_key(b"e" * 32))

    def swap(header: dict[str, Any], parts: list[bytes]) -> None:
        found = to_numbers(parts[0], ADVERT_BYTES + SIGNATURE_BYTES)
        found[3] = evil + found[3][32:]
        parts[0] = by_number(found, ADVERT_BYTES + SIGNATURE_BYTES)

    wire.tamper = lambda trip, node, content, back: (
        edited(content, swap) if (trip, node, back) == ("shares", "node-100", False) else content
    )
    result = wire.tune()
    assert set(result.dropped) == {"client-0"}
    assert "an advert of 'client-3', but its keys are not signed by its pinned key" in result.dropped["client-0"]


# ---- different stories -------------------------------------------------------------------------------


def shares_seen(answers: list[tuple[int, bytes]]) -> tuple[dict[Any, set[str]], dict[Any, set[str]]]:
    """From answers to `unmask`, per (sum, owner): who revealed a share of its seed, and of its mask key."""
    seeds: dict[Any, set[str]] = {}
    masks: dict[Any, set[str]] = {}
    for at, content in answers:
        answer = Answer.from_bytes(content)
        header, parts = unpack(answer.reply)
        if header["kind"] != "unmask":
            continue
        for table, piece in ((seeds, parts[0]), (masks, parts[1])):
            for owner in to_numbers(piece, shamir.SHARE_BYTES):
                table.setdefault((at, owner), set()).add(answer.name)
    return seeds, masks


@pytest.mark.parametrize("told_dropped", range(1, 5))
def test_split_stories_never_give_both_kinds(tmp_path: Path, told_dropped: int) -> None:
    """Some are told that client 0 dropped, the others that it answered: one kind stays below the threshold."""
    wire = Wire(tmp_path)
    letters = stopped_before(wire, "unmask")
    answers = []
    for number, node in enumerate(wire.nodes):
        story = tells(without(0)) if 0 < number <= told_dropped else tells(without())
        answers.append((0, wire.deliver(node, edited(letters[node], story))))
    seeds, masks = shares_seen(answers)
    threshold = ht.Masked(dropouts=0.4).shape(5).threshold
    assert len(masks.get((0, 0), ())) == told_dropped
    assert min(len(seeds.get((0, 0), ())), len(masks.get((0, 0), ()))) < threshold


def test_split_stories_are_found_out_if_pinned(tmp_path: Path) -> None:
    """Members of the committee sign one list each, and nobody reveals anything against another one."""
    wire = Wire(tmp_path, pinned=True)
    letters = stopped_before(wire, "agree")
    signed = {}
    for number, node in enumerate(wire.nodes):
        answer = wire.deliver(node, letters[node] if number < 3 else edited(letters[node], tells(without(0))))
        assert not reason_of(answer)
        signed[number] = unpack(Answer.from_bytes(answer).reply)[1][0]
    second = edited(letters["node-100"], tells(without(1)))
    assert "answered already" in reason_of(wire.deliver("node-100", second))
    header = {"kind": "masked", "run": unpack(Letter.from_bytes(letters["node-100"]).message)[0]["run"]}
    header |= {"trip": "unmask", "round": 0, "last": True}
    for list_, reason in ((without(0), "must have signed what the server tells this client"), (without(), "")):
        message = pack(header, list_, by_number(signed, SIGNATURE_BYTES), b"")
        answer, _ = wire.endpoint("node-104").reply(Letter(message, None).to_bytes(), wire.states["node-104"])
        assert reason in reason_of(answer)
        assert bool(reason_of(answer)) is bool(reason)


def test_answers_drops_and_returns_without_an_input_unmasked(tmp_path: Path) -> None:
    """A client answers the first sum, drops out of the second and is back for the third. In the server's whole view
    nobody's two secrets of one round can be rebuilt, and no key serves two rounds."""
    wire = Wire(tmp_path)
    sums, answers, adverts = {"count": 0}, [], []

    def drop(trip: str, node: str) -> str | None:
        sums["count"] += trip == "input" and node == "node-100"
        return "gone" if sums["count"] == 2 and node == "node-103" and trip in ("input", "unmask") else None

    def record(trip: str, node: str, content: bytes, is_answer: bool) -> bytes:
        if is_answer and trip == "unmask":
            answers.append((sums["count"], content))
        if is_answer and node == "node-103":
            header, parts = unpack(Answer.from_bytes(content).reply)
            adverts.append({"keys": parts[:1], "input": parts[1:]}.get(str(header["kind"]), []))
        return content

    wire.fail, wire.tamper = drop, record
    result = wire.tune(method=ThreeVotes(), privacy=None)
    assert [opened.answered for opened in result.opened] == [5, 4, 5]
    seeds, masks = shares_seen(answers)
    threshold = ht.Masked(dropouts=0.4).shape(5).threshold
    for key in set(seeds) | set(masks):
        assert min(len(seeds.get(key, ())), len(masks.get(key, ()))) < threshold
    assert len(masks[2, 3]) >= threshold  # its mask key of the second sum was rebuilt
    keys = [piece[at : at + 32] for pieces in adverts for piece in pieces if piece for at in (0, 32)]
    assert len(keys) >= 4
    assert len(set(keys)) == len(keys)


def test_a_simulation_cannot_be_ordered_by_the_server(tmp_path: Path) -> None:
    """Whether noise comes from a seed is the client's setting; nothing in a letter changes it."""
    wire = Wire(tmp_path)
    wire.tune()
    for seen in wire.seen:
        outer, _ = unpack(seen.letter)
        assert set(outer) == {"kind", "nodes"}
        assert "seed" not in json.dumps(unpack(Letter.from_bytes(seen.letter).message)[0])
    forged = pack({"kind": "to-client", "nodes": list(wire.nodes), "seed": 3}, b"x")
    assert reason_of(wire.deliver("node-100", forged)) == "a letter to a client was expected"


# ---- state that was put back -------------------------------------------------------------------------


def request_of(letter: bytes) -> dict[str, Any]:
    """The request in a letter that carries one."""
    return unpack(unpack(Letter.from_bytes(letter).message)[1][-1])[0]


def with_request(letter: bytes, **changes: Any) -> bytes:
    """The letter with another request in it."""

    def change(header: dict[str, Any], parts: list[bytes]) -> None:
        parts[-1] = pack({**unpack(parts[-1])[0], **changes})

    return edited(letter, change)


@pytest.mark.parametrize("pinned", [False, True])
def test_keys_prepared_for_a_round_hide_one_input_only(tmp_path: Path, pinned: bool) -> None:
    """The keys of a later round are made before its question is known. Put back to before its input, a client does not
    give another input under the same masks, for whatever step."""
    wire = Wire(tmp_path, pinned=pinned)
    before: dict[tuple[str, str], bytes] = {}
    letters: dict[int, bytes] = {}

    def keep(trip: str, node: str, content: bytes, is_answer: bool) -> bytes:
        if trip == "input" and node == "node-100" and not is_answer:
            round_ = unpack(Letter.from_bytes(content).message)[0]["round"]
            letters[round_] = content
            before[trip, str(round_)] = wire.states[node]
        return content

    wire.tamper = keep
    wire.tune(method=ThreeVotes(), privacy=None)
    other = with_request(letters[1], step=2)
    assert request_of(other)["step"] == 2
    with sqlite3.connect(wire.ledger(0).path) as db:  # as if step 2 had not come yet, ledger and anchor alike
        db.execute("DELETE FROM steps WHERE step IN ('step 2', '2 input')")
        Anchor(wire.ledger(0).path).write(state_of(db))
    answer, _ = wire.endpoint("node-100").reply(other, before["input", "1"])
    assert "step '1 input' of this run was answered already, for another request" in reason_of(answer)


def test_a_refused_message_does_not_change_the_state(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    letters = stopped_before(wire, "input")
    kept = wire.states["node-101"]
    assert reason_of(wire.deliver("node-101", with_request(letters["node-101"], step=7)))
    assert json.loads(wire.states["node-101"]) == json.loads(kept)
    assert not reason_of(wire.deliver("node-101", letters["node-101"]))


def test_a_reply_that_another_process_gave_leaves_the_state_as_it_was(tmp_path: Path) -> None:
    """Two processes with one state: the ledger takes the first reply, and the other's session counts for nothing."""
    wire = Wire(tmp_path)
    letters = stopped_before(wire, "input")
    kept = wire.states["node-101"]
    first = wire.deliver("node-101", letters["node-101"])
    again, state = wire.endpoint("node-101").reply(letters["node-101"], kept)
    assert again == first
    assert json.loads(state) == json.loads(kept)


def test_a_state_without_its_ledger_is_of_no_use(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    letters = stopped_before(wire, "unmask")
    wire.ledger(1).path.unlink()
    refusal = "ledger: it cannot be used; see the client's own log"
    assert reason_of(wire.deliver("node-101", letters["node-101"])) == refusal
    Anchor(wire.ledger(1).path).path.unlink()
    assert "ledger does not know the run" in reason_of(wire.deliver("node-101", letters["node-101"]))


# ---- one run, one set of terms, one client -----------------------------------------------------------


def test_a_masked_run_does_not_go_on_in_the_clear(tmp_path: Path) -> None:
    wire = Wire(tmp_path, pinned=True, policy=ht.Policy(exact=True, seals=("masked", "clear")))
    wire.tune(method=ThreeVotes(), privacy=None)
    letter = sent(wire, "input", "node-101")
    run = {**request_of(letter), "step": 5, "seal": {"name": "clear", "dropouts": 0.4, "corrupt": 0.1}}
    answer = wire.deliver("node-101", Letter(pack(run), None).to_bytes())
    assert reason_of(answer) == "the request's seal, privacy, noise or events are not what the run began with"


def test_two_nodes_that_share_a_ledger_by_mistake_do_not_count_twice(tmp_path: Path) -> None:
    for seal in (ht.Clear(dropouts=0.4), ht.Masked(dropouts=0.4)):
        wire = Wire(tmp_path / seal.name)
        wire.names[3] = wire.names[1]
        (tmp_path / seal.name).mkdir()
        (tmp_path / seal.name / "machine-1").mkdir()
        (tmp_path / seal.name / "machine-3").symlink_to(tmp_path / seal.name / "machine-1")
        result = wire.tune(seal=seal)
        assert set(result.dropped) == {"node-103"}
        assert "answered already, for another request" in result.dropped["node-103"]


def test_the_first_epsilon_that_a_server_asks_for_is_nobodys_limit(tmp_path: Path) -> None:
    wire = Wire(tmp_path, policy=ht.Policy(epsilon=3.0, delta=1e-4))
    stopped_before(wire, "shares", privacy=ht.Privacy(2.0))
    assert [wire.ledger(at).limit() for at in range(5)] == [ht.Privacy(3.0, 1e-4).budget] * 5
    wire.tune(privacy=ht.Privacy(1.0))
    assert [wire.ledger(at).limit() for at in range(5)] == [ht.Privacy(3.0, 1e-4).budget] * 5


def test_an_identity_without_a_roster_is_not_used(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    client = wire.client

    def make(at: int) -> ht.Client:
        made = client(at)
        made.identity = wire.identities[at]
        return made

    wire.client = make  # type: ignore[method-assign]
    assert wire.tune().dropped == {}


def test_a_trial_cache_that_cannot_be_written_is_named_to_the_client_only(tmp_path: Path) -> None:
    wire = Wire(tmp_path)
    (tmp_path / "machine-1").mkdir()
    (tmp_path / "machine-1" / "trials.db").write_bytes(b"no database" * 100)
    wire.tune()
    assert not any(b"trials.db" in seen.answer for seen in wire.seen)
    assert (
        "trials.db must be a trial cache"
        in (tmp_path / "machine-1" / "clients" / "client-1" / "client.log").read_text()
    )
