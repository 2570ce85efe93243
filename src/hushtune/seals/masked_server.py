"""The server's end of the masked seal: moves messages between clients and unmasks nothing but the sum."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hushtune.errors import AbortedError, WireError
from hushtune.privacy.skellam import IntArray
from hushtune.roster import Id
from hushtune.seals import crypto, shamir
from hushtune.seals.base import Exchange
from hushtune.seals.masked_client import (
    ADVERT_BYTES,
    BOX_BYTES,
    PREPARED,
    SIGNATURE_BYTES,
    Setting,
    by_number,
    pair_mask,
    point,
    to_numbers,
    usable,
)
from hushtune.wire import pack, unpack

_ATTEMPTS = 400


@dataclass
class _Prepared:
    """Keys and shares of a round that are there before its query is."""

    index: int
    adverts: dict[int, bytes] = field(default_factory=dict)  # with signatures, as they were sent
    boxes: dict[int, dict[int, bytes]] = field(default_factory=dict)  # sender -> holder -> encrypted shares


class MaskedServer:
    """The server in one run.

    Args:
        setting: run, roster and graph.
        needed: the fewest inputs that complete a round.
    """

    def __init__(self, setting: Setting, needed: int) -> None:
        self._setting = setting
        self._needed = needed
        self._ready: _Prepared | None = None
        self._last = -1
        self._around = [setting.neighbours(number) for number in range(setting.shape.clients)]
        self.trips = 0

    def sum(
        self, request: bytes, length: int, bits: int, exchange: Exchange, last: bool
    ) -> tuple[IntArray, dict[Id, str]]:
        """The sum over all clients whose input arrived, and why each of the others is missing.

        Args:
            request: the request's bytes, the same for all.
            length: of the vectors.
            bits: of the sum.
            exchange: the transport.
            last: whether no other sum follows in this run: then no keys are made for one.

        Raises AbortedError, with nothing unmasked, if too few clients are left at any stage.
        """
        lost: dict[int, str] = {}
        round_ = self._ready
        spare = self._setting.shape.clients - self._needed
        if round_ is None or len(round_.boxes) < self._needed + (spare + 1) // 2:  # let the lost ones come back
            round_ = self._set_up(request, exchange, lost)
        vectors, next_round = self._inputs(round_, request, length, bits, exchange, lost, last)
        self._enough(vectors, lost, "sent an input")
        seeds, masks = self._unmask(round_, vectors, next_round, exchange)
        self._ready = next_round
        total = self._total(round_, vectors, seeds, masks, crypto.digest(request).hex(), length, bits)
        names = self._setting.roster.ids
        missing = {names[n]: lost.get(n, "no input") for n in range(self._setting.shape.clients) if n not in vectors}
        return total, missing

    # ---- trips ---------------------------------------------------------------------------------------

    def _trip(
        self,
        name: str,
        round_: int,
        out: Mapping[int, tuple[bytes, ...]],
        exchange: Exchange,
        lost: dict[int, str],
        last: bool = False,
    ) -> dict[int, list[bytes]]:
        """Sends, and keeps what came back in the right form; everybody else is lost, with the reason."""
        self.trips += 1
        ids, header = self._setting.roster.ids, {"kind": "masked", "run": self._setting.run, "trip": name}
        messages = {ids[n]: pack({**header, "round": round_, "last": last}, *parts) for n, parts in out.items()}
        replies = exchange(name, messages)
        found = {}
        for number in out:
            reply = replies.get(ids[number])
            try:
                if not isinstance(reply, bytes):
                    raise WireError(getattr(reply, "reason", "no reply"))
                kind, parts = unpack(reply)
                if kind.get("kind") == "refused":
                    raise WireError(f"refused: {kind.get('reason')}")
                if kind.get("kind") != name or kind.get("round") != round_:
                    raise WireError(f"a reply to '{name}' of round {round_} was expected")
                found[number] = parts
            except WireError as error:
                lost[number] = str(error)
        return found

    def _enough(self, found: Mapping[int, object], lost: Mapping[int, str], what: str) -> None:
        if len(found) < self._needed:
            reasons = "; ".join(f"{self._setting.roster.ids[n]}: {why}" for n, why in list(lost.items())[:3])
            raise AbortedError(
                f"{self._needed} of {self._setting.shape.clients} clients must have {what}, but got {len(found)}; "
                f"nothing was opened; {reasons}"
            )

    def _set_up(self, request: bytes, exchange: Exchange, lost: dict[int, str]) -> _Prepared:
        self._last += 1
        round_ = _Prepared(self._last)
        everyone = range(self._setting.shape.clients)
        keys = self._trip("keys", round_.index, dict.fromkeys(everyone, (request,)), exchange, lost)
        round_.adverts = self._adverts(round_.index, keys, 0, crypto.digest(request).hex(), lost)
        self._enough(round_.adverts, lost, "sent keys")
        out = {n: (self._near(n, round_.adverts),) for n in round_.adverts}
        shares = self._trip("shares", round_.index, out, exchange, lost)
        round_.boxes = self._boxes(round_, shares, 0, lost)
        self._enough(round_.boxes, lost, "shared its secrets")
        return round_

    def _near(self, number: int, pieces: Mapping[int, bytes]) -> bytes:
        """The pieces of a client's neighbours."""
        chosen = {n: pieces[n] for n in self._around[number] if n in pieces}
        return by_number(chosen, len(next(iter(chosen.values()), b"")))

    def _adverts(
        self, round_: int, replies: Mapping[int, list[bytes]], at: int, query: str, lost: dict[int, str]
    ) -> dict[int, bytes]:
        size = ADVERT_BYTES + (SIGNATURE_BYTES if self._setting.roster.pinned else 0)
        found = {}
        for number, parts in replies.items():
            if len(parts) <= at or len(parts[at]) != size:
                lost[number] = "its keys have the wrong size"
            elif (why := usable(self._setting, round_, number, query, parts[at])) is not None:
                lost[number] = why
            elif not crypto.agreeable(parts[at][:32], parts[at][32:64]):
                lost[number] = "its keys are of no use"
            else:
                found[number] = parts[at]
        return found

    def _boxes(
        self, round_: _Prepared, replies: Mapping[int, list[bytes]], at: int, lost: dict[int, str]
    ) -> dict[int, dict[int, bytes]]:
        found = {}
        for number, parts in replies.items():
            try:
                boxes = to_numbers(parts[at], BOX_BYTES)
                if set(boxes) != {n for n in self._around[number] if n in round_.adverts}:
                    raise WireError("its shares are not for its neighbours")
                found[number] = boxes
            except (WireError, IndexError) as error:
                lost[number] = str(error) or "its shares are missing"
        return found

    def _inputs(
        self,
        round_: _Prepared,
        request: bytes,
        length: int,
        bits: int,
        exchange: Exchange,
        lost: dict[int, str],
        last: bool,
    ) -> tuple[dict[int, IntArray], _Prepared]:
        out = {n: (self._addressed(round_, n), request) for n in round_.boxes}
        replies = self._trip("input", round_.index, out, exchange, lost, last)
        vectors: dict[int, IntArray] = {}
        for number, parts in replies.items():
            if len(parts) == 2 and len(parts[0]) == length * bits // 8:
                vectors[number] = np.frombuffer(parts[0], dtype=f"<u{bits // 8}")
            else:
                lost[number] = f"its input must be {length} integers of {bits} bits"
        self._last = max(self._last, round_.index + 1)
        ahead = _Prepared(round_.index + 1)
        known = {n: replies[n] for n in vectors if replies[n][1]}
        ahead.adverts = self._adverts(ahead.index, known, 1, PREPARED, {})
        return vectors, ahead

    def _addressed(self, round_: _Prepared, holder: int) -> bytes:
        """What the neighbours who shared have encrypted for a client."""
        boxes = {n: round_.boxes[n][holder] for n in self._around[holder] if holder in round_.boxes.get(n, {})}
        return by_number(boxes, BOX_BYTES)

    def _unmask(
        self,
        round_: _Prepared,
        vectors: Mapping[int, object],
        ahead: _Prepared,
        exchange: Exchange,
    ) -> tuple[dict[int, dict[int, bytes]], dict[int, dict[int, bytes]]]:
        """Shares of the self-mask seeds of those who sent an input, and of the mask keys of those who did not."""
        out = {}
        for number in vectors:
            near = [n for n in self._around[number] if number in round_.boxes.get(n, {}) and n in round_.boxes]
            alive = dict.fromkeys((n for n in near if n in vectors), b"")
            dropped = dict.fromkeys((n for n in near if n not in vectors), b"")
            out[number] = (by_number(alive, 0), by_number(dropped, 0), self._near(number, ahead.adverts))
        late: dict[int, str] = {}  # their inputs count: enough of their neighbours are there to unmask them
        replies = self._trip("unmask", round_.index, out, exchange, late)
        self._enough(replies, late, "helped to unmask")
        seeds: dict[int, dict[int, bytes]] = {}
        masks: dict[int, dict[int, bytes]] = {}
        for holder, parts in replies.items():
            try:
                first, second = to_numbers(parts[0], shamir.SHARE_BYTES), to_numbers(parts[1], shamir.SHARE_BYTES)
            except (WireError, IndexError):
                continue
            for table, pieces in ((seeds, first), (masks, second)):
                for owner, share in pieces.items():
                    table.setdefault(owner, {})[point(holder)] = share
        prepared = {n: p for n, p in replies.items() if n in ahead.adverts and len(p) == 3 and p[2]}
        ahead.boxes = self._boxes(ahead, prepared, 2, {})
        return seeds, masks

    # ---- the sum -------------------------------------------------------------------------------------

    def _total(
        self,
        round_: _Prepared,
        vectors: Mapping[int, IntArray],
        seeds: Mapping[int, Mapping[int, bytes]],
        masks: Mapping[int, Mapping[int, bytes]],
        query: str,
        length: int,
        bits: int,
    ) -> IntArray:
        """Removes self masks of those who answered, and pairwise masks towards those who did not."""
        liars: set[int] = set()
        owner = 0
        total = np.zeros(length, dtype=f"<u{bits // 8}")
        try:
            for number, vector in vectors.items():
                commitment = round_.adverts[number][64:ADVERT_BYTES]
                owner = number
                seed = self._rebuilt(seeds.get(number, {}), liars, _committed(commitment))
                total += vector - crypto.mask(seed, length, bits)
            for gone in set(round_.boxes) - set(vectors):
                survivors = [n for n in self._around[gone] if n in vectors and n in round_.boxes[gone]]
                if not survivors:
                    continue
                public = round_.adverts[gone][32:64]
                owner = gone
                secret = crypto.private_key(self._rebuilt(masks.get(gone, {}), liars, _advertised(public)))
                for other in survivors:
                    theirs = round_.adverts[other][32:64]
                    pair = pair_mask(self._setting, round_.index, secret, theirs, gone, other, query)
                    shift = crypto.mask(pair, length, bits)
                    total = total - shift if other < gone else total + shift
        except WireError as error:
            name = self._setting.roster.ids[owner]
            raise AbortedError(f"the mask of '{name}' could not be removed: {error}; nothing was opened") from None
        return total.astype(f"<i{bits // 8}").astype(np.int64)

    def _rebuilt(self, shares: Mapping[int, bytes], liars: set[int], fits: Callable[[bytes], bool]) -> bytes:
        """A secret that fits its commitment, from shares of which some may be lies; finds out who lied."""
        threshold = self._setting.shape.threshold
        trusted = {x: share for x, share in shares.items() if x not in liars}
        draw = random.Random(0)  # which shares are tried is no secret
        points = sorted(trusted)
        for attempt in range(_ATTEMPTS):
            chosen = points[:threshold] if attempt == 0 else draw.sample(points, min(threshold, len(points)))
            try:
                secret = shamir.join({x: trusted[x] for x in chosen}, threshold)
            except WireError:
                if len(points) < threshold:
                    raise
                continue
            if fits(secret):
                if attempt:
                    good = {x: trusted[x] for x in chosen}
                    liars |= {x for x in points if x not in good and not shamir.fits(good, threshold, x, trusted[x])}
                return secret
        raise WireError("too many shares are wrong")


def _committed(commitment: bytes) -> Callable[[bytes], bool]:
    return lambda seed: crypto.digest(seed) == commitment


def _advertised(public: bytes) -> Callable[[bytes], bool]:
    return lambda secret: crypto.public_of(crypto.private_key(secret)) == public
