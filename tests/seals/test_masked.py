"""The masked protocol: exact sums or clean aborts, whoever drops out; hostile servers and clients; the wire."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.seals.harness import RUN, TRIPS, Federation

import hushtune as ht
from hushtune.errors import HushtuneError, RefusedError
from hushtune.identity import Identity
from hushtune.randomness import SystemRandomness
from hushtune.roster import Roster
from hushtune.seals import crypto, shamir
from hushtune.seals.graph import shape
from hushtune.seals.masked_client import (
    ADVERT_BYTES,
    SIGNATURE_BYTES,
    MaskedClient,
    Setting,
    by_number,
    pair_mask,
    to_numbers,
)
from hushtune.wire import pack, unpack


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("clients", [2, 3, 10, 40])
def test_three_sums_are_exact_in_four_and_then_two_trips(clients: int, pinned: bool) -> None:
    federation = Federation(clients, pinned=pinned, dropped=clients // 10, corrupt=clients // 10)
    for number in range(3):
        total, missing, expected = federation.sum(last=number == 2)
        assert total.tolist() == expected.tolist()
        assert not missing
        assert federation.server.trips == 4 + 2 * number


@pytest.mark.parametrize("trip", TRIPS)
@pytest.mark.parametrize("after", [0, 1])
def test_dropouts_at_every_stage_give_the_sum_of_those_who_answered(trip: str, after: int) -> None:
    federation = Federation(12, dropped=3, corrupt=1, pinned=True)
    for _ in range(after):
        federation.sum()
    if (trip, after) in (("keys", 1), ("shares", 1)):
        return  # a later sum has no such trip
    federation.drop = {(after, trip, n) for n in (1, 5, 9)}
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert set(missing) == (set() if trip == "unmask" else {"c1", "c5", "c9"})


@pytest.mark.parametrize("trip", TRIPS)
def test_more_dropouts_than_allowed_abort_and_nothing_is_opened(trip: str) -> None:
    federation = Federation(12, dropped=3, corrupt=1)
    federation.drop = {(0, trip, n) for n in (1, 3, 5, 9)}
    with pytest.raises(ht.AbortedError, match="but got 8; nothing was opened"):
        federation.sum()


def test_clients_lost_in_one_sum_come_back_with_new_keys() -> None:
    """More than half the spare clients are not prepared for the next sum: it starts with fresh keys for everybody."""
    federation = Federation(20, dropped=4, corrupt=1)
    federation.drop = {(0, "unmask", n) for n in (0, 1, 2)}
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert not missing
    assert federation.server.trips == 8


def test_a_few_lost_clients_do_not_cost_more_trips() -> None:
    federation = Federation(20, dropped=4, corrupt=1)
    federation.drop = {(0, "unmask", 0)}
    federation.sum()
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert set(missing) == {"c0"}
    assert federation.server.trips == 6


@pytest.mark.parametrize("part", range(4))
def test_ten_thousand_random_cases_are_exact_or_abort(part: int) -> None:
    """Random sizes, lengths and dropout patterns over two sums: 4 x 1,250 federations, 10,000 sums asked for."""
    rng, exact, aborted = np.random.default_rng(part), 0, 0
    for case in range(1_250):
        clients = int(rng.integers(2, 7))
        dropped = int(rng.integers(0, max(1, (clients - 1) // 2)))
        federation = Federation(clients, seed=case, dropped=dropped, length=int(rng.integers(1, 5)))
        chance = rng.choice([0.0, 0.05, 0.2])
        for number, trip, client in itertools.product(range(2), TRIPS, range(clients)):
            if rng.random() < chance:
                federation.drop.add((number, trip, client))
        for _ in range(2):
            try:
                total, _, expected = federation.sum()
                assert total.tolist() == expected.tolist()
                exact += 1
            except ht.AbortedError:
                aborted += 1
    assert exact + aborted == 2_500
    assert exact > 1_000
    assert aborted > 100


# ---- what the server sees ----------------------------------------------------------------------------


def rebuilt(federation: Federation) -> tuple[dict[tuple[int, int], set[int]], dict[tuple[int, int], set[int]]]:
    """From the server's whole view: who revealed shares of whose self-mask seed, and of whose mask key."""
    seeds: dict[tuple[int, int], set[int]] = {}
    masks: dict[tuple[int, int], set[int]] = {}
    for number, trip, holder, reply in federation.view:
        header, parts = unpack(reply)
        if trip != "unmask" or header["kind"] != "unmask":
            continue
        for table, content in ((seeds, parts[0]), (masks, parts[1])):
            for owner in to_numbers(content, shamir.SHARE_BYTES):
                table.setdefault((number, owner), set()).add(holder)
    return seeds, masks


def test_answers_drops_and_returns_across_three_sums_without_an_input_unmasked() -> None:
    """A client answers the first sum, drops in the second and returns in the third: no secret of one round opens
    another round's input, and within a round nobody's two secrets can both be rebuilt."""
    federation = Federation(12, dropped=3, corrupt=1, pinned=True)
    federation.drop = {(1, "input", 4)}
    for _ in range(2):
        total, _, expected = federation.sum()
        assert total.tolist() == expected.tolist()
    federation.server._ready = None  # the server starts anew, so that the client can return
    total, missing, expected = federation.sum()
    assert not missing
    assert total.tolist() == expected.tolist()
    seeds, masks = rebuilt(federation)
    threshold = federation.setting.shape.threshold
    for key in set(seeds) | set(masks):
        assert min(len(seeds.get(key, ())), len(masks.get(key, ()))) < threshold, key
    assert len(masks[1, 4]) >= threshold  # its mask key of the second sum was rebuilt ...
    adverts = [
        unpack(reply)[1][0][:64]
        for _, trip, n, reply in federation.view
        if n == 4 and trip == "keys" and unpack(reply)[0]["kind"] == "keys"
    ]
    ahead = [unpack(reply)[1][1][:64] for _, trip, n, reply in federation.view if n == 4 and trip == "input"]
    keys = [advert[at : at + 32] for advert in [*adverts, *ahead] for at in (0, 32)]
    assert len(set(keys)) == len(keys)  # ... and no key was ever used in two rounds


def test_a_masked_input_says_nothing_without_its_seed() -> None:
    """The same input twice looks unrelated, and differs from the input in about half the bits."""
    federation = Federation(6, dropped=1)
    federation.sum()
    federation.sum()
    inputs = [unpack(r)[1][0] for _, trip, n, r in federation.view if trip == "input" and n == 2]
    assert inputs[0] != inputs[1]
    plain = federation.inputs[0][2].astype("<u4").tobytes()
    assert inputs[0] != plain


# ---- hostile servers ---------------------------------------------------------------------------------


class Stopped(Exception):
    pass


def clients_before_unmasking(federation: Federation) -> dict[int, bytes]:
    """Runs a sum up to the unmask messages, which are returned and not sent."""
    waiting: dict[int, bytes] = {}

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if trip == "unmask" and not is_reply:
            waiting[number] = content
            raise RefusedError("held back")
        return content

    federation.tamper = tamper
    with pytest.raises(ht.AbortedError):
        federation.sum()
    return waiting


def no_input(request: bytes) -> Any:
    raise AssertionError("no input is due")


def changed(message: bytes, part: int, content: bytes) -> bytes:
    header, parts = unpack(message)
    parts[part] = content
    return pack(header, *parts)


def numbers(*found: int) -> bytes:
    return by_number(dict.fromkeys(found, b""), 0)


def test_both_kinds_of_shares_of_one_client_are_refused() -> None:
    federation = Federation(8, dropped=2)
    waiting = clients_before_unmasking(federation)
    everyone = [n for n in range(8) if n != 0]
    both = changed(changed(waiting[0], 0, numbers(*everyone)), 1, numbers(3))
    with pytest.raises(RefusedError, match="both kinds of shares"):
        federation.clients[0].step(both, no_input)


def test_first_one_kind_and_then_the_other_is_refused() -> None:
    federation = Federation(8, dropped=2)
    waiting = clients_before_unmasking(federation)
    client = federation.clients[0]
    client.step(waiting[0], no_input)
    others = [n for n in range(1, 8) if n != 3]
    story = changed(changed(waiting[0], 0, numbers(*others)), 1, numbers(3))
    with pytest.raises(RefusedError, match="answered already, for another message"):
        client.step(story, no_input)


def test_a_server_that_leaves_neighbours_out_is_refused() -> None:
    federation = Federation(8, dropped=2)
    waiting = clients_before_unmasking(federation)
    with pytest.raises(RefusedError, match="every neighbour who shared"):
        federation.clients[0].step(changed(waiting[0], 0, numbers(1, 2, 3, 4, 5)), no_input)


def test_unmasking_below_the_threshold_is_refused() -> None:
    federation = Federation(8, dropped=2)
    waiting = clients_before_unmasking(federation)
    few = changed(changed(waiting[0], 0, numbers(1, 2)), 1, numbers(3, 4, 5, 6, 7))
    with pytest.raises(RefusedError, match="must have sent an input, but got 2"):
        federation.clients[0].step(few, no_input)


@pytest.mark.parametrize("clients", [5, 8, 12, 30, 100])
def test_split_stories_never_yield_both_secrets_of_one_client(clients: int) -> None:
    """A server tells some honest neighbours that the victim dropped, and the rest that it answered; its corrupt clients
    give it both shares. It never reaches the threshold for both kinds."""
    corrupt = clients // 10
    form = shape(clients, clients // 10, corrupt)
    near = min(corrupt, form.degree)  # all of them near the victim: for more clients test_graph.py has the odds
    honest = form.degree - near
    for told_dropped in range(honest + 1):
        seeds, masks = honest - told_dropped + near, told_dropped + near
        assert not (seeds >= form.threshold and masks >= form.threshold)


def test_swapped_keys_are_refused_by_name_if_pinned() -> None:
    federation = Federation(6, pinned=True, dropped=1)
    evil = crypto.public_of(crypto.private_key(b"e" * 32))

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if trip == "shares" and number == 0 and not is_reply:
            header, parts = unpack(content)
            found = to_numbers(parts[0], ADVERT_BYTES + SIGNATURE_BYTES)
            found[3] = evil + found[3][32:]
            return pack(header, by_number(found, ADVERT_BYTES + SIGNATURE_BYTES))
        return content

    federation.tamper = tamper
    total, missing, expected = federation.sum()
    (reason,) = missing.values()
    assert set(missing) == {"c0"}
    assert "an advert of 'c3', but its keys are not signed by its pinned key" in reason
    assert total.tolist() == expected.tolist()


def test_another_runs_or_rounds_advert_does_not_verify() -> None:
    """A spliced advert: signed by the right client, for another run."""
    one = Federation(6, pinned=True, dropped=1)
    other_setting = Setting("b" * 32, one.roster, one.setting.shape)
    stranger = MaskedClient(other_setting, 3, SystemRandomness(), one.identities[3])
    keys = pack({"kind": "masked", "run": "b" * 32, "trip": "keys", "round": 0}, b"request 0")
    spliced = unpack(stranger.step(keys, no_input))[1][0]

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        return pack({"kind": "keys", "round": 0}, spliced) if (trip, number, is_reply) == ("keys", 3, True) else content

    one.tamper = tamper
    total, missing, expected = one.sum()
    assert missing == {"c3": "its keys are not signed by its pinned key"}
    assert total.tolist() == expected.tolist()


def test_replays_old_rounds_and_other_runs_are_refused_by_name() -> None:
    federation = Federation(5)
    seen: list[bytes] = []
    federation.tamper = lambda trip, n, content, is_reply: (
        (seen.append(content) if n == 0 and not is_reply else None) or content
    )
    federation.sum()
    federation.sum()
    client = federation.clients[0]
    for message in seen:
        client.step(message, no_input)  # the very same message: the same bytes again, and no new input
    fresh_keys = pack({"kind": "masked", "run": RUN, "trip": "keys", "round": 1}, b"request 9")
    with pytest.raises(RefusedError, match="round 1 is over"):
        client.step(fresh_keys, no_input)
    header, parts = unpack(seen[2])
    assert header["trip"] == "input"
    with pytest.raises(RefusedError, match="answered already, for another message"):
        client.step(pack(header, parts[0], b"another request"), no_input)
    with pytest.raises(RefusedError, match="another run"):
        client.step(pack({**header, "run": "b" * 32}, *parts), no_input)
    with pytest.raises(RefusedError, match="does not follow"):
        client.step(pack({**header, "round": 77}, *parts), no_input)


def test_another_request_than_the_keys_were_made_for_is_refused() -> None:
    federation = Federation(6, dropped=1)
    federation.tamper = swap_request(2)
    total, missing, expected = federation.sum()
    assert "were made for another request" in missing["c2"]
    assert total.tolist() == expected.tolist()


def test_different_requests_to_different_clients_open_nothing_useful() -> None:
    """Prepared keys suit any query, but pairwise masks are bound to it: two questions in one round do not cancel."""
    federation = Federation(6)
    federation.sum()
    federation.tamper = swap_request(2)
    total, _, expected = federation.sum()
    assert (np.abs(total - expected) > 1000).any()


def swap_request(victim: int) -> Any:

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if trip == "input" and number == victim and not is_reply:
            header, parts = unpack(content)
            return pack(header, parts[0], b"another request")
        return content

    return tamper


def test_an_identity_that_is_not_the_pinned_one_is_refused() -> None:
    federation = Federation(4, pinned=True)
    for wrong in (None, Identity.new()):
        with pytest.raises(RefusedError, match="not its own"):
            MaskedClient(federation.setting, 0, SystemRandomness(), wrong)


# ---- hostile clients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("trip", TRIPS)
@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"garbage",
        pack({"kind": "input"}),
        pack({"kind": "keys"}, b"short"),
        pack({"kind": "unmask"}, b"x", b"y", b"z"),
    ],
)
def test_garbage_from_a_client_counts_as_its_dropout(trip: str, garbage: bytes) -> None:
    federation = Federation(9, dropped=2)
    federation.tamper = lambda t, n, content, is_reply: garbage if (t, n, is_reply) == (trip, 4, True) else content
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert set(missing) == (set() if trip == "unmask" else {"c4"})


@pytest.mark.parametrize(("trip", "part"), [("keys", 0), ("input", 1)])
def test_a_key_of_no_use_counts_as_its_owners_dropout(trip: str, part: int) -> None:
    """All-zero public keys, now or in the advert for the next sum, cost nobody else anything."""
    federation = Federation(9, dropped=2)

    def tamper(t: str, n: int, content: bytes, is_reply: bool) -> Any:
        if (t, n, is_reply) == (trip, 4, True):
            header, parts = unpack(content)
            if len(parts) > part:
                parts[part] = bytes(64) + parts[part][64:]
            return pack(header, *parts)
        return content

    federation.tamper = tamper
    for _ in range(2):
        total, _, expected = federation.sum()
        assert total.tolist() == expected.tolist()


def test_an_old_rounds_reply_counts_as_a_dropout() -> None:
    federation = Federation(9, dropped=2)
    old: dict[str, bytes] = {}

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if number == 4 and is_reply and trip == "unmask":
            return old.setdefault(trip, content)
        return content

    federation.tamper = tamper
    for _ in range(3):
        total, _, expected = federation.sum()
        assert total.tolist() == expected.tolist()


def lying(who: set[int]) -> Any:
    """Changes every share that the given clients reveal."""

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if trip == "unmask" and is_reply and number in who:
            header, parts = unpack(content)
            for at in (0, 1):
                found = to_numbers(parts[at], shamir.SHARE_BYTES)
                parts[at] = by_number({n: share[:-1] + b"!" for n, share in found.items()}, shamir.SHARE_BYTES)
            return pack(header, *parts)
        return content

    return tamper


def test_a_few_wrong_shares_are_found_out_and_the_sum_is_exact() -> None:
    federation = Federation(20, dropped=3, corrupt=2)
    federation.drop = {(0, "input", 7)}
    federation.tamper = lying({1, 4})
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert set(missing) == {"c7"}


def test_too_many_wrong_shares_abort_and_open_nothing() -> None:
    federation = Federation(8, dropped=1)
    federation.tamper = lying({0, 1, 2, 3, 4})
    with pytest.raises(ht.AbortedError, match="the mask of 'c0' could not be removed: .*; nothing was opened"):
        federation.sum()


# ---- between processes, and the wire -----------------------------------------------------------------


def test_state_survives_between_any_two_messages() -> None:
    federation = Federation(5, pinned=True)

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if not is_reply:  # a new process for every message
            state = federation.clients[number].dump()
            federation.clients[number] = federation.make(number).load(state)
            federation.clients[number]._randomness = SystemRandomness()
        return content

    federation.tamper = tamper
    for _ in range(3):
        total, missing, expected = federation.sum()
        assert not missing
        assert total.tolist() == expected.tolist()


def test_secrets_do_not_show() -> None:
    federation = Federation(3, pinned=True)
    federation.sum()
    client = federation.clients[0]
    assert client._next is not None
    shown = repr(client) + repr(federation.identities[0]) + repr(federation.setting)
    for secret in (client._next.seed, client._next.mask, client._next.channel, federation.identities[0].secret):
        assert secret.hex() not in shown
        assert repr(secret) not in shown


def test_a_hundred_thousand_mutated_messages_crash_nothing() -> None:
    """Every message of a sum, mutated: the client answers or refuses with a named error, and never hangs."""
    federation = Federation(4, pinned=False, length=2)
    recorded: list[tuple[bytes, bytes]] = []

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if number == 1 and not is_reply:
            recorded.append((federation.clients[1].dump(), content))
        return content

    federation.tamper = tamper
    federation.sum()
    rng, outcomes = np.random.default_rng(7), {"answered": 0, "refused": 0}
    for state, message in recorded:
        fresh = federation.make(1)
        for _ in range(100_000 // len(recorded)):
            try:
                fresh.load(state).step(mutated(message, rng), lambda _: (np.zeros(2, dtype=np.int64), 32))
                outcomes["answered"] += 1
            except HushtuneError:
                outcomes["refused"] += 1
    assert sum(outcomes.values()) == 100_000
    assert outcomes["refused"] > 50_000  # the rest changed what is neither signed nor checked here: the request


def mutated(message: bytes, rng: np.random.Generator) -> bytes:
    content = bytearray(message)
    kind = rng.integers(4)
    at = int(rng.integers(len(content)))
    if kind == 0:
        content[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del content[at : at + int(rng.integers(1, 40))]
    elif kind == 2:
        content[at:at] = rng.bytes(int(rng.integers(1, 20)))
    else:
        other = int(rng.integers(len(content)))
        content[at], content[other] = content[other], content[at] ^ 0x55
    return bytes(content)


def test_mutated_replies_never_give_a_wrong_sum() -> None:
    """Replies of one client, mutated outside its masked vector: the sum is exact for those counted, or aborts."""
    rng = np.random.default_rng(8)
    for case in range(300):
        federation = Federation(6, seed=case, pinned=True, dropped=1, length=2)
        trip = TRIPS[case % 4]

        def tamper(t: str, n: int, content: bytes, is_reply: bool, trip: str = trip) -> Any:
            if (t, n, is_reply) != (trip, 2, True):
                return content
            changed_reply = mutated(content, rng)
            return changed_reply if trip != "input" else changed_reply[:-1]

        federation.tamper = tamper
        try:
            total, _, expected = federation.sum()
        except ht.AbortedError:
            continue
        assert total.tolist() == expected.tolist()


def test_pair_masks_agree_and_depend_on_everything() -> None:
    federation = Federation(3)
    secrets = [crypto.private_key(bytes([i]) * 32) for i in (1, 2)]
    publics = [crypto.public_of(secret) for secret in secrets]
    one = pair_mask(federation.setting, 0, secrets[0], publics[1], 0, 1, "query")
    assert one == pair_mask(federation.setting, 0, secrets[1], publics[0], 1, 0, "query")
    other_roster = Setting(RUN, Roster(("x", "y", "z")), federation.setting.shape)
    assert (
        len(
            {
                one,
                pair_mask(federation.setting, 1, secrets[0], publics[1], 0, 1, "query"),
                pair_mask(federation.setting, 0, secrets[0], publics[1], 0, 2, "query"),
                pair_mask(federation.setting, 0, secrets[0], publics[1], 0, 1, "other"),
                pair_mask(other_roster, 0, secrets[0], publics[1], 0, 1, "query"),
            }
        )
        == 5
    )
