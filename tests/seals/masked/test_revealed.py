"""Who is wrong, if shares are: an innocent is never named, and few wrong holders beside dropouts stall nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from tests.seals.masked.harness import Federation, trips

import hushtune as ht
from hushtune.core.wire import pack, unpack
from hushtune.seals.masked import crypto, shamir
from hushtune.seals.masked.pact import PARCEL_BYTES, TAGGED_BYTES, by_number, to_numbers
from hushtune.seals.masked.revealed import Revealed

Tamper = Callable[[str, int, bytes, bool], Any]
Change = Callable[[dict[int, bytes]], dict[int, bytes]]
SIZE = shamir.SHARE_BYTES


def spoilt(share: bytes) -> bytes:
    return bytes([share[0] ^ 1]) + share[1:]


def revealing(change: Change) -> Callable[[list[bytes]], list[bytes]]:
    """Changes the shares that are revealed."""
    return lambda parts: [*(by_number(change(to_numbers(piece, SIZE)), SIZE) for piece in parts[:2]), *parts[2:]]


LIES: dict[str, tuple[str, Callable[[list[bytes]], list[bytes]], str | None]] = {  # trip, what, and how it is named
    "all wrong": ("unmask", revealing(lambda t: {n: spoilt(s) for n, s in t.items()}), "sent wrong shares"),
    "one wrong": (
        "unmask",
        revealing(lambda t: {n: spoilt(s) if n == min(t) else s for n, s in t.items()}),
        "sent wrong shares",
    ),
    "strangers": ("unmask", revealing(lambda t: {**t, 2**31: bytes(SIZE)}), "sent wrong shares"),
    "unreadable": ("unmask", lambda parts: [b"?", b"?", *parts[2:]], "its shares cannot be read"),
    "none": ("unmask", revealing(lambda t: {}), None),  # it may have been given none, for all that anybody can tell
    "no signature": ("agree", lambda parts: [bytes(64)], "signed another list than it was sent"),
}


def lying(liars: set[int], lie: str) -> Tamper:
    trip, change, _ = LIES[lie]

    def tamper(name: str, number: int, content: bytes, is_reply: bool) -> Any:
        if not is_reply or name != trip or number not in liars:
            return content
        header, parts = unpack(content)
        return pack(header, *(change(parts) if header["kind"] == trip else parts))

    return tamper


def silent_from(trip: str, who: set[int], number: int = 0) -> set[tuple[int, str, int]]:
    """Those who answer nothing any more, from this trip on."""
    order = trips(pinned=True)
    return {(number, later, n) for later in order[order.index(trip) :] for n in who}


def small(clients: int, **changes: Any) -> Federation:
    """As the default shares have it from 10 clients on; below, nobody is taken to be corrupt."""
    return Federation(clients, dropped=1, corrupt=int(clients >= 10), pinned=True, **changes)


def check(federation: Federation, gone: set[int], trip: str, liars: set[int], lie: str) -> None:
    """The sum is exact, the dropouts are named, and of the others the liars alone, if it can be known."""
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    dropouts, before = {f"c{n}" for n in gone}, trip not in ("agree", "unmask")
    assert set(missing) == (dropouts if before else set())
    named = {name: why for name, why in federation.late.items() if name not in dropouts}
    asked = liars & federation.pact.committee if LIES[lie][0] == "agree" else liars
    assert named == ({} if LIES[lie][2] is None else {f"c{n}": LIES[lie][2] for n in asked})


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("trip", trips(pinned=True))
@pytest.mark.parametrize("clients", range(5, 13))
def test_a_dropout_at_any_stage_and_a_wrong_holder_stall_nothing(clients: int, trip: str, lie: str) -> None:
    for gone, liar in ((1, clients - 2), (clients - 1, 0)):
        federation = small(clients)
        federation.drop = silent_from(trip, {gone})
        federation.tamper = lying({liar}, lie)
        check(federation, {gone}, trip, {liar}, lie)


def test_whoever_of_ten_drops_out_and_whoever_is_wrong() -> None:
    for gone, liar in permutations(range(10), 2):
        federation = small(10)
        federation.drop, federation.tamper = silent_from("input", {gone}), lying({liar}, "all wrong")
        check(federation, {gone}, "input", {liar}, "all wrong")


@pytest.mark.parametrize("clients", range(5, 13))
@pytest.mark.parametrize("trip", trips(pinned=True))
def test_a_dropout_and_a_client_that_goes_silent_after_its_input_stall_nothing(clients: int, trip: str) -> None:
    federation = small(clients)
    federation.drop = silent_from(trip, {2}) | silent_from("agree", {0})
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert federation.late["c0"] == "no reply"
    assert set(missing) | set(federation.late) == {"c0", "c2"}


@pytest.mark.parametrize("lie", ["all wrong", "none"])
@pytest.mark.parametrize("trip", ["input", "unmask"])
def test_as_many_of_both_as_the_shares_allow_in_a_larger_federation(trip: str, lie: str) -> None:
    federation = Federation(60, dropped=6, corrupt=6, pinned=True)
    assert not federation.pact.shape.complete
    chosen = np.random.default_rng(5).permutation(60).tolist()
    gone, liars = set(chosen[:6]), set(chosen[6:12])
    federation.drop, federation.tamper = silent_from(trip, gone), lying(liars, lie)
    check(federation, gone, trip, liars, lie)


def test_the_next_sum_goes_on_with_the_liar_in_it() -> None:
    federation = small(10)
    federation.tamper = lying({4}, "all wrong")
    for _ in range(3):
        check(federation, set(), "unmask", {4}, "all wrong")


def test_four_clients_are_too_few_to_be_promised_that_and_the_liar_alone_is_named() -> None:
    federation = small(4)
    assert federation.pact.shape.wrong == 0
    federation.drop, federation.tamper = silent_from("input", {1}), lying({2}, "all wrong")
    with pytest.raises(ht.AbortedError, match="3 good shares of every secret .* but got 2 of one; ") as caught:
        federation.sum()
    assert set(re.findall(r"c\d", str(caught.value))) == {"c2"}
    assert Federation(4).pact.shape.wrong == 1  # nobody may drop out, and one may be wrong


def test_too_many_liars_are_named_and_nobody_else() -> None:
    federation = small(12)
    federation.tamper = lying({0, 1, 2, 3, 4}, "all wrong")
    with pytest.raises(ht.AbortedError, match="c1: sent wrong shares; c2: sent wrong shares; ") as caught:
        federation.sum()
    assert set(re.findall(r"c\d+", str(caught.value))) <= {"c0", "c1", "c2", "c3", "c4"}


# ---- owners who share out something else -------------------------------------------------------------


def dealing(dealer: int, change: Callable[[int, bytes], bytes]) -> Tamper:
    """Changes each of the parcels, with its tags, that one client shares out."""

    def tamper(name: str, number: int, content: bytes, is_reply: bool) -> Any:
        if name != "shares" or number != dealer or not is_reply:
            return content
        header, parts = unpack(content)
        found = to_numbers(parts[0], TAGGED_BYTES)
        return pack(header, by_number({holder: change(holder, piece) for holder, piece in found.items()}, TAGGED_BYTES))

    return tamper


@pytest.mark.parametrize(
    "change",
    [
        lambda holder, piece: bytes(PARCEL_BYTES) + piece[PARCEL_BYTES:],  # nobody can decrypt it
        lambda holder, piece: piece[:PARCEL_BYTES] + bytes(TAGGED_BYTES - PARCEL_BYTES),  # no share has its tag
    ],
)
@pytest.mark.parametrize("clients", range(5, 13))
def test_a_client_that_shares_out_garbage_makes_the_round_abort_by_its_name(clients: int, change: Any) -> None:
    federation = small(clients)
    federation.drop, federation.tamper = silent_from("input", {1}), dealing(3, change)
    with pytest.raises(ht.AbortedError, match=r"'c3' gave \d+ of its peers shares that are of no use") as caught:
        federation.sum()
    assert set(re.findall(r"c\d+", str(caught.value))) == {"c3"}


def test_a_client_that_shares_out_another_secret_makes_the_round_abort_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All its shares have their tags, so nobody but itself can have made them."""
    federation = small(10)
    real, calls = shamir.split, [0]

    def split(secret: bytes, *given: Any) -> list[bytes]:
        calls[0] += 1
        return real(crypto.digest(secret) if calls[0] in (7, 8) else secret, *given)  # of c3

    monkeypatch.setattr(shamir, "split", split)
    with pytest.raises(ht.AbortedError, match="'c3' shared out another secret than it committed to") as caught:
        federation.sum()
    assert set(re.findall(r"c\d+", str(caught.value))) == {"c3"}


def test_a_few_spoilt_parcels_cost_nothing_and_make_no_holder_a_suspect() -> None:
    """The holder cannot know what the share would be, and reveals none: it is not named for it."""
    federation = small(10)
    federation.tamper = dealing(3, lambda holder, piece: piece[:-1] + b"?" if holder in (0, 9) else piece)
    total, missing, expected = federation.sum()
    assert total.tolist() == expected.tolist()
    assert not missing
    assert not federation.late


def test_a_holder_that_withholds_frames_nobody() -> None:
    """One share too few, and one holder that reveals none: it or the owner is wrong, and the message says just that."""
    federation = small(4)
    federation.drop, federation.tamper = silent_from("input", {1}), lying({2}, "none")
    with pytest.raises(ht.AbortedError, match="c2: revealed no share of one peer, or was given none") as caught:
        federation.sum()
    assert set(re.findall(r"c\d", str(caught.value))) == {"c2"}


def test_a_long_list_is_cut() -> None:
    federation = Federation(30, dropped=3, corrupt=3)
    revealed = Revealed(federation.pact, [federation.pact.holders(n) for n in range(30)], {})
    for holder in range(1, 30):
        revealed.add(holder, [b"?", b"?", b""], lambda *given: b"")
    with pytest.raises(ht.AbortedError, match=r"but got 0 of one; c1: its shares .*; c5: .*; and 24 more$"):
        revealed.secret("seed", 0, lambda secret: True)
