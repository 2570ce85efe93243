"""Servers that lie: each lie is refused by name, or opens nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom
from tests.seals.masked.harness import RUN, Federation, changed

import hushtune as ht
from hushtune.core.errors import RefusedError
from hushtune.core.identity import Identity
from hushtune.core.randomness import SystemRandomness
from hushtune.core.wire import pack, unpack
from hushtune.seals.ends import Seat
from hushtune.seals.masked import crypto, shamir
from hushtune.seals.masked.client import MaskedClient
from hushtune.seals.masked.graph import FAILURE, Shape, _order, shape
from hushtune.seals.masked.pact import (
    ADVERT_BYTES,
    SIGNATURE_BYTES,
    Members,
    Pact,
    by_number,
    pair_mask,
    to_numbers,
    view_of,
)


def clients_before(trip: str, federation: Federation) -> dict[int, bytes]:
    """Runs a sum up to the messages of one trip, which are returned and not sent."""
    waiting: dict[int, bytes] = {}

    def tamper(now: str, number: int, content: bytes, is_reply: bool) -> Any:
        if now == trip and not is_reply:
            waiting[number] = content
            raise RefusedError("held back")
        return content

    federation.tamper = tamper
    with pytest.raises(ht.AbortedError):
        federation.sum()
    return waiting


def clients_before_unmasking(federation: Federation) -> dict[int, bytes]:
    return clients_before("unmask", federation)


def told(federation: Federation, *without: int) -> bytes:
    """The list of those who answered: all but the given ones."""
    everyone = range(len(federation.clients))
    return Members.of([n for n in everyone if n not in without], len(everyone)).bits


def test_first_one_kind_and_then_the_other_is_refused() -> None:
    federation = Federation(8, dropped=2)
    waiting = clients_before_unmasking(federation)
    client = federation.clients[0]
    client.step(waiting[0], None)
    with pytest.raises(RefusedError, match="answered already, for another message"):
        client.step(changed(waiting[0], 0, told(federation, 3)), None)


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        ((1, 2, 3), "6 of 8 clients must have sent an input, but got 5"),
        ((0,), "leaves this client out of those who have sent an input"),
    ],
)
def test_a_list_of_too_few_or_without_the_client_is_refused(without: tuple[int, ...], reason: str) -> None:
    federation = Federation(8, dropped=2)
    waiting = clients_before_unmasking(federation)
    with pytest.raises(RefusedError, match=reason):
        federation.clients[0].step(changed(waiting[0], 0, told(federation, *without)), None)


def test_unmasking_with_too_few_peers_left_is_refused() -> None:
    graph = Shape(20, degree=6, threshold=4, needed=14, committee=0, quorum=0, gap=0)
    federation = Federation(20, graph=graph)
    waiting = clients_before_unmasking(federation)
    near = list(federation.pact.peers(0))
    with pytest.raises(RefusedError, match="4 peers must have sent an input, but got 2"):
        federation.clients[0].step(changed(waiting[0], 0, told(federation, *near[:4])), None)


def test_an_answer_without_shares_is_refused() -> None:
    federation = Federation(8, dropped=2)
    federation.drop = {(0, "shares", 5)}
    waiting = clients_before_unmasking(federation)
    with pytest.raises(RefusedError, match="sent an input without having shared"):
        federation.clients[0].step(changed(waiting[0], 0, told(federation)), None)


@pytest.mark.parametrize(
    ("without", "parcels_without", "reason"),
    [
        ((3,), (), "no more and no less"),
        ((), (3,), "no more and no less"),
        ((1, 2, 3), (1, 2, 3), "6 of 8 clients must have shared, but got 5"),
        ((0,), (), "leaves this client out of those who have shared"),
    ],
)
def test_shares_must_be_of_all_who_shared(
    without: tuple[int, ...], parcels_without: tuple[int, ...], reason: str
) -> None:
    federation = Federation(8, dropped=2)

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if trip == "input" and number == 0 and not is_reply:
            header, parts = unpack(content)
            size = (len(parts[0]) // 7) - 4
            parcels = {n: parcel for n, parcel in to_numbers(parts[0], size).items() if n not in parcels_without}
            return pack(header, by_number(parcels, size), told(federation, *without), parts[2])
        return content

    federation.tamper = tamper
    _, missing, _ = federation.sum()
    assert reason in missing["c0"]


def test_different_stories_about_who_shared_do_not_cancel() -> None:
    """Masks are bound to the list of those who shared: clients who were told different ones are in no common sum."""
    federation = Federation(8, dropped=2)

    def tamper(trip: str, number: int, content: bytes, is_reply: bool) -> Any:
        if trip == "input" and number == 0 and not is_reply:
            header, parts = unpack(content)
            size = (len(parts[0]) // 7) - 4
            parcels = {n: parcel for n, parcel in to_numbers(parts[0], size).items() if n != 3}
            return pack(header, by_number(parcels, size), told(federation, 3), parts[2])
        if trip == "unmask" and number == 0 and not is_reply:
            return changed(content, 0, told(federation, 3))
        return content

    federation.tamper = tamper
    total, missing, expected = federation.sum()
    assert not missing
    assert (np.abs(total - expected) > 1000).any()


# ---- split stories -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("clients", "dropped"), [(3, 1), (5, 0), (5, 2), (8, 0), (8, 3), (12, 1), (30, 3), (100, 10)])
def test_split_stories_never_yield_both_secrets_of_one_client(clients: int, dropped: int) -> None:
    """A server tells some honest peers that the victim dropped, and the rest that it answered; its corrupt clients
    give it both shares. It never reaches the threshold for both kinds."""
    corrupt = clients // 10
    graph = shape(clients, dropped, corrupt)
    near = min(corrupt, graph.degree)  # all of them near the victim: for more clients test_graph.py has the odds
    honest = graph.degree - near
    for told_dropped in range(honest + 1):
        seeds, masks = honest - told_dropped + near + graph.own, told_dropped + near
        assert not (seeds >= graph.threshold and masks >= graph.threshold)


_WEAK = Shape(24, degree=8, threshold=4, needed=16, committee=9, quorum=6, gap=4)
VICTIM = 5


class Attack:
    """Tells each holder that DIFFERENT peers of a victim dropped, so that no two secrets of one client are asked
    for, but the mask keys of all the victim's peers and the self mask of the victim are."""

    def __init__(self, federation: Federation) -> None:
        self.federation = federation
        pact = federation.pact
        around = pact.peers(VICTIM)
        self.dropped: dict[int, set[int]] = {n: set() for n in range(24)}
        for round_ in range(_WEAK.threshold):  # one more holder for each of the victim's peers
            for target in around:
                free = [
                    holder
                    for holder in pact.peers(target)
                    if holder != VICTIM and target not in self.dropped[holder] and len(self.dropped[holder]) < 4
                ]
                best = min(free, key=lambda holder: len(self.dropped[holder]))
                self.dropped[best].add(target)
            assert all(sum(w in d for d in self.dropped.values()) == round_ + 1 for w in around)

    def run(self) -> np.ndarray | list[str]:
        """The victim's input, or why clients refused."""
        federation, pact = self.federation, self.federation.pact
        signatures, refusals = dict[int, bytes](), list[str]()
        clients_before("agree" if federation.roster.pinned else "unmask", federation)
        seeds: dict[int, bytes] = {}
        masks: dict[int, dict[int, bytes]] = {}
        header = {"kind": "masked", "run": RUN, "round": 0}
        for member in federation.pact.committee:
            story = pack({**header, "trip": "agree"}, told(federation, *self.dropped[member]))
            signatures[member] = unpack(federation.clients[member].step(story, None))[1][0]
        signed = by_number(signatures, SIGNATURE_BYTES)
        for holder in set(range(24)) - {VICTIM}:
            message = pack({**header, "trip": "unmask"}, told(federation, *self.dropped[holder]), signed, b"")
            try:
                first, second, _ = unpack(federation.clients[holder].step(message, None))[1]
            except RefusedError as error:
                refusals.append(str(error))
                continue
            if VICTIM in (found := to_numbers(first, shamir.SHARE_BYTES)):
                seeds[pact.holders(VICTIM)[holder]] = found[VICTIM]
            for owner, share in to_numbers(second, shamir.SHARE_BYTES).items():
                masks.setdefault(owner, {})[pact.holders(owner)[holder]] = share
        return refusals or self.opened(seeds, masks)

    def opened(self, seeds: dict[int, bytes], masks: dict[int, dict[int, bytes]]) -> np.ndarray:
        federation, pact = self.federation, self.federation.pact
        seen = {(trip, n): unpack(reply)[1] for _, trip, n, reply in federation.view if trip != "unmask"}
        length = federation.length
        vector = np.frombuffer(seen["input", VICTIM][0], dtype="<u4")
        vector = vector - crypto.mask(shamir.join(seeds, _WEAK.threshold), length, 32)
        view = view_of(crypto.digest(b"request 0").hex(), Members(told(federation)))
        for other in pact.peers(VICTIM):
            key = crypto.private_key(shamir.join(masks[other], _WEAK.threshold))
            public = seen["keys", VICTIM][0][32:64]
            shift = crypto.mask(pair_mask(pact, 0, key, public, other, VICTIM, view), length, 32)
            vector = vector - shift if other > VICTIM else vector + shift
        return vector.astype("<i4")


def test_different_stories_to_different_clients_open_an_input_if_nobody_signs() -> None:
    """What pinning is for: without signatures this server gets away with it (and has impersonation at hand anyway)."""
    attack = Attack(Federation(24, graph=_WEAK))
    found = attack.run()
    assert np.array_equal(found, attack.federation.inputs[0][VICTIM])


def test_different_stories_to_different_clients_find_no_quorum() -> None:
    attack = Attack(Federation(24, graph=_WEAK, pinned=True))
    refusals = attack.run()
    assert len(refusals) == 23
    assert all("6 of the 9 clients who sign the list of those who answered" in reason for reason in refusals)


def test_a_member_signs_one_list_in_a_round() -> None:
    federation = Federation(12, pinned=True, dropped=2)
    waiting = clients_before("agree", federation)
    member, message = next(iter(waiting.items()))
    gone = (member + 1) % 12
    assert federation.clients[member].step(message, None) == federation.clients[member].step(message, None)
    with pytest.raises(RefusedError, match="answered already, for another message"):
        federation.clients[member].step(changed(message, 0, told(federation, gone)), None)


def test_who_is_no_member_signs_nothing() -> None:
    federation = Federation(12, pinned=True, dropped=1)
    waiting = clients_before("agree", federation)
    outsider = min(set(range(12)) - federation.pact.committee)
    with pytest.raises(RefusedError, match="not of those who sign"):
        federation.clients[outsider].step(next(iter(waiting.values())), None)


@pytest.mark.parametrize("lists", [2, 3])
def test_two_lists_never_both_find_a_quorum(lists: int) -> None:
    """However a server splits the committee, with all its corrupt members signing every list: one quorum at most."""
    for clients in (10, 30, 100, 1_000, 10_000):
        graph = shape(clients, clients // 10, clients // 10)
        corrupt = min(clients // 10, int(hypergeom.isf(FAILURE, clients, clients // 10, graph.committee)))
        honest = graph.committee - corrupt
        assert (honest // lists) + corrupt < graph.quorum


def test_signatures_of_another_round_list_or_stranger_do_not_count() -> None:
    federation = Federation(12, pinned=True, dropped=1, corrupt=1)
    graph = federation.pact.shape
    seen: list[bytes] = []
    federation.tamper = lambda trip, n, content, is_reply: (
        (seen.append(content) if trip == "unmask" and n == 0 and not is_reply else None) or content
    )
    federation.sum()
    old = unpack(seen[0])[1][1]
    waiting = clients_before_unmasking(federation)
    reason = f"{graph.quorum} of the {graph.committee} clients who sign"
    for number, wrong in enumerate((old, b"", old[: -SIGNATURE_BYTES - 4])):
        with pytest.raises(RefusedError, match=reason):
            federation.clients[number].step(changed(waiting[number], 1, wrong), None)
    gone = changed(waiting[4], 0, told(federation, 5))  # another list than the one that was signed
    with pytest.raises(RefusedError, match=reason):
        federation.clients[4].step(gone, None)


def test_a_list_that_cuts_the_ring_is_not_signed() -> None:
    """All clients of a stretch of the ring are declared dropped: few enough in all, too many in a row."""
    graph = Shape(40, degree=8, threshold=4, needed=30, committee=40, quorum=21, gap=3)
    federation = Federation(40, graph=graph, pinned=True)
    waiting = clients_before("agree", federation)
    ring = _order(federation.roster.seed, 40)
    member = ring[20]
    assert unpack(federation.clients[member].step(changed(waiting[member], 0, told(federation, *ring[:3])), None))
    other = ring[25]
    with pytest.raises(RefusedError, match="of 4 clients in a row on the ring 3 may have dropped out"):
        federation.clients[other].step(changed(waiting[other], 0, told(federation, *ring[:4])), None)


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
    other_pact = Pact("b" * 32, one.roster, one.pact.shape)
    stranger = MaskedClient(other_pact, Seat(RUN, one.roster, 3, "", SystemRandomness(), one.identities[3]))
    keys = pack({"kind": "masked", "run": "b" * 32, "trip": "keys", "round": 0}, b"request 0")
    spliced = unpack(stranger.step(keys, None))[1][0]

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
        client.step(message, None)  # the very same message: the same bytes again, and no new input
    fresh_keys = pack({"kind": "masked", "run": RUN, "trip": "keys", "round": 1}, b"request 9")
    with pytest.raises(RefusedError, match="round 1 is over"):
        client.step(fresh_keys, None)
    header, parts = unpack(seen[2])
    assert header["trip"] == "input"
    with pytest.raises(RefusedError, match="answered already, for another message"):
        client.step(pack(header, *parts[:-1], b"another request"), None)
    with pytest.raises(RefusedError, match="another run"):
        client.step(pack({**header, "run": "b" * 32}, *parts), None)
    with pytest.raises(RefusedError, match="does not follow"):
        client.step(pack({**header, "round": 77}, *parts), None)


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
            return pack(header, *parts[:-1], b"another request")
        return content

    return tamper


def test_an_identity_that_is_not_the_pinned_one_is_refused() -> None:
    federation = Federation(4, pinned=True)
    for wrong in (None, Identity.new()):
        with pytest.raises(RefusedError, match="not its own"):
            MaskedClient(federation.pact, Seat(RUN, federation.roster, 0, "", SystemRandomness(), wrong))
