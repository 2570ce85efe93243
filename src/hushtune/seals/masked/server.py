"""The server's end of the masked seal: moves messages between clients and unmasks nothing but the sum."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from hushtune.core.arrays import IntArray
from hushtune.core.errors import AbortedError, WireError
from hushtune.core.identity import verified
from hushtune.core.wire import pack, unpack_reply
from hushtune.seals.ends import Ask, Outcome, Replies, Trip, Trips
from hushtune.seals.masked import crypto
from hushtune.seals.masked.pact import (
    ADVERT_BYTES,
    PARCEL_BYTES,
    PREPARED,
    SIGNATURE_BYTES,
    TAGGED_BYTES,
    Members,
    Pact,
    agreed_text,
    by_number,
    pair_mask,
    sum_bits,
    to_numbers,
    usable,
    view_of,
)
from hushtune.seals.masked.revealed import Revealed

_Found = TypeVar("_Found")
_Steps = Generator[Trip, Replies, _Found]
"""Part of an opening: some trips, and what they gave."""


@dataclass
class _Prepared:
    """Keys and shares of a round that are there before its query is."""

    index: int
    adverts: dict[int, bytes] = field(default_factory=dict)  # with signatures, as they were sent
    parcels: dict[int, dict[int, bytes]] = field(default_factory=dict)  # sender -> holder -> encrypted shares and tags


class MaskedServer:
    """The server in one run.

    Args:
        pact: run, roster and graph.
        first: the number of its first round; clients have none of the same run with such a number yet.
    """

    def __init__(self, pact: Pact, first: int = 0) -> None:
        self._pact = pact
        self._needed = pact.shape.needed
        self._ready: _Prepared | None = None
        self._last = first - 1
        self._around = [pact.peers(number) for number in range(pact.shape.clients)]
        self._points = [pact.holders(number) for number in range(pact.shape.clients)]
        self._joined = 0  # how many clients shared when keys were last made anew

    def open(self, ask: Ask) -> Trips:
        """The sum over all clients whose input arrived, and why each of the others is missing.

        Raises AbortedError, with nothing unmasked, if too few clients are left at any stage.
        """
        lost: dict[int, str] = {}
        request, length, bits = ask.request, ask.length, sum_bits(ask.largest)
        round_, self._ready = self._ready, None  # a round that fails is never tried again
        if round_ is None or len(round_.parcels) < self._joined:  # let those who were lost since come back
            round_ = yield from self._set_up(request, lost)
            self._joined = len(round_.parcels)
        sharers = Members.of(round_.parcels, self._pact.shape.clients)
        view = view_of(crypto.digest(request).hex(), sharers)
        vectors, next_round = yield from self._inputs(round_, sharers, request, length, bits, lost, ask.last)
        self._enough(vectors, lost, "sent an input")
        answered = Members.of(vectors, self._pact.shape.clients)
        late: dict[int, str] = {}  # their inputs count, though they did not help, or not as they should
        signatures = yield from self._agreed(round_, view, answered, late)
        revealed = yield from self._unmask(round_, vectors, answered, signatures, next_round, late)
        self._ready = next_round
        total = self._total(round_, vectors, revealed, view, length, bits)
        names = self._pact.roster.ids
        missing = {names[n]: lost.get(n, "no input") for n in range(self._pact.shape.clients) if n not in vectors}
        return Outcome(total, missing, {names[n]: why for n, why in late.items()})

    def finish(self) -> Generator[Trip, Replies, None]:
        """No trips: nobody keeps anything for the run."""
        yield from ()

    def close(self) -> None:
        """Nothing was begun beside this process."""

    # ---- trips ---------------------------------------------------------------------------------------

    def _trip(
        self,
        name: str,
        round_: int,
        out: Mapping[int, tuple[bytes, ...]],
        lost: dict[int, str],
        last: bool = False,
    ) -> _Steps[dict[int, list[bytes]]]:
        """Sends, and keeps what came back as it should be; everybody else is lost, with the reason."""
        ids, header = self._pact.roster.ids, {"kind": "masked", "run": self._pact.run, "trip": name}
        messages = {ids[n]: pack({**header, "round": round_, "last": last}, *parts) for n, parts in out.items()}
        replies = yield Trip(name, messages, inputs=name == "input")
        found = {}
        for number in out:
            try:
                kind, parts = unpack_reply(replies.get(ids[number]))
                if kind.get("kind") != name or kind.get("round") != round_:
                    raise WireError(f"a reply to '{name}' of round {round_} was expected")
                found[number] = parts
            except WireError as error:
                lost[number] = str(error)
        return found

    def _enough(self, found: Mapping[int, object], lost: Mapping[int, str], what: str) -> None:
        if len(found) < self._needed:
            reasons = "; ".join(f"{self._pact.roster.ids[n]}: {why}" for n, why in list(lost.items())[:3])
            raise AbortedError(
                f"{self._needed} of {self._pact.shape.clients} clients must have {what}, but got {len(found)}; "
                f"{reasons}"
            )

    def _set_up(self, request: bytes, lost: dict[int, str]) -> _Steps[_Prepared]:
        self._last += 1
        round_ = _Prepared(self._last)
        everyone = range(self._pact.shape.clients)
        keys = yield from self._trip("keys", round_.index, dict.fromkeys(everyone, (request,)), lost)
        round_.adverts = self._adverts(round_.index, keys, 0, crypto.digest(request).hex(), lost)
        self._enough(round_.adverts, lost, "sent keys")
        out = {n: (self._near(n, round_.adverts),) for n in round_.adverts}
        shares = yield from self._trip("shares", round_.index, out, lost)
        round_.parcels = self._parcels(round_, shares, 0, lost)
        self._enough(round_.parcels, lost, "shared its secrets")
        return round_

    def _near(self, number: int, pieces: Mapping[int, bytes]) -> bytes:
        """The pieces of a client's peers."""
        chosen = {n: pieces[n] for n in self._around[number] if n in pieces}
        return by_number(chosen, len(next(iter(chosen.values()), b"")))

    def _adverts(
        self, round_: int, replies: Mapping[int, list[bytes]], at: int, query: str, lost: dict[int, str]
    ) -> dict[int, bytes]:
        size = ADVERT_BYTES + (SIGNATURE_BYTES if self._pact.roster.pinned else 0)
        found = {}
        for number, parts in replies.items():
            if len(parts) <= at or len(parts[at]) != size:
                lost[number] = "its keys have the wrong size"
            elif (why := usable(self._pact, round_, number, query, parts[at])) is not None:
                lost[number] = why
            elif not crypto.agreeable(parts[at][:32], parts[at][32:64]):
                lost[number] = "its keys are of no use"
            else:
                found[number] = parts[at]
        return found

    def _parcels(
        self, round_: _Prepared, replies: Mapping[int, list[bytes]], at: int, lost: dict[int, str]
    ) -> dict[int, dict[int, bytes]]:
        found = {}
        for number, parts in replies.items():
            try:
                parcels = to_numbers(parts[at], TAGGED_BYTES)
                if set(parcels) != {n for n in self._points[number] if n in round_.adverts}:
                    raise WireError("its shares are not for its peers")
                found[number] = parcels
            except (WireError, IndexError) as error:
                lost[number] = str(error) or "its shares are missing"
        return found

    def _inputs(
        self,
        round_: _Prepared,
        sharers: Members,
        request: bytes,
        length: int,
        bits: int,
        lost: dict[int, str],
        last: bool,
    ) -> _Steps[tuple[dict[int, IntArray], _Prepared]]:
        out = {n: (self._addressed(round_, n), sharers.bits, request) for n in round_.parcels}
        replies = yield from self._trip("input", round_.index, out, lost, last)
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
        """What the peers who shared have encrypted for a client, with its tags."""
        parcels = {n: round_.parcels[n][holder] for n in self._around[holder] if n in round_.parcels}
        return by_number(parcels, TAGGED_BYTES)

    def _agreed(self, round_: _Prepared, view: str, answered: Members, late: dict[int, str]) -> _Steps[bytes]:
        """A quorum of signatures of who answered; none without a committee."""
        keys, quorum = self._pact.roster.keys, self._pact.shape.quorum
        if keys is None or not quorum:
            return b""
        text = agreed_text(self._pact, round_.index, view, answered)
        out = {n: (answered.bits,) for n in sorted(self._pact.committee) if n in answered}
        replies = yield from self._trip("agree", round_.index, out, late)
        signed = {n: parts[0] for n, parts in replies.items() if len(parts) == 1 and verified(keys[n], parts[0], text)}
        late.update(dict.fromkeys(replies.keys() - signed.keys(), "signed another list than it was sent"))
        if len(signed) < quorum:
            reasons = "; ".join(f"{self._pact.roster.ids[n]}: {why}" for n, why in list(late.items())[:3])
            raise AbortedError(
                f"{quorum} of the {self._pact.shape.committee} clients who sign the list of those who answered must "
                f"do so, but got {len(signed)}; {reasons}"
            )
        return by_number(dict(list(signed.items())[:quorum]), SIGNATURE_BYTES)

    def _unmask(
        self,
        round_: _Prepared,
        vectors: Mapping[int, object],
        answered: Members,
        signatures: bytes,
        ahead: _Prepared,
        late: dict[int, str],
    ) -> _Steps[Revealed]:
        """Shares of the self-mask seeds of those who sent an input, and of the mask keys of those who did not."""
        out = {n: (answered.bits, signatures, self._near(n, ahead.adverts)) for n in vectors}
        replies = yield from self._trip("unmask", round_.index, out, late)
        revealed = Revealed(self._pact, self._points, late)
        for holder, parts in replies.items():
            revealed.add(holder, parts, partial(self._tag, round_))
        prepared = {n: p for n, p in replies.items() if n in ahead.adverts and len(p) == 3 and p[2]}
        ahead.parcels = self._parcels(ahead, prepared, 2, {})
        return revealed

    def _tag(self, round_: _Prepared, owner: int, holder: int, kind: str) -> bytes:
        """What the owner of a secret said one of its shares is known by."""
        tags = round_.parcels.get(owner, {}).get(holder, b"")[PARCEL_BYTES:]
        return tags[: crypto.TAG_BYTES] if kind == "seed" else tags[crypto.TAG_BYTES :]

    # ---- the sum -------------------------------------------------------------------------------------

    def _total(
        self,
        round_: _Prepared,
        vectors: Mapping[int, IntArray],
        revealed: Revealed,
        view: str,
        length: int,
        bits: int,
    ) -> IntArray:
        """Removes self masks of those who answered, and pairwise masks towards those who did not."""
        total = np.zeros(length, dtype=f"<u{bits // 8}")
        for owner, vector in vectors.items():
            seed = revealed.secret("seed", owner, partial(_commits, round_.adverts[owner]))
            total += vector - crypto.mask(seed, length, bits)
        for owner in set(round_.parcels) - set(vectors):
            key = crypto.private_key(revealed.secret("mask", owner, partial(_advertises, round_.adverts[owner])))
            for other in (n for n in self._around[owner] if n in vectors):
                theirs = round_.adverts[other][32:64]
                shift = crypto.mask(pair_mask(self._pact, round_.index, key, theirs, owner, other, view), length, bits)
                total = total - shift if other < owner else total + shift
        return total.astype(f"<i{bits // 8}").astype(np.int64)


def _commits(advert: bytes, seed: bytes) -> bool:
    """Whether an advert commits to this seed."""
    return crypto.digest(seed) == advert[64:ADVERT_BYTES]


def _advertises(advert: bytes, secret: bytes) -> bool:
    """Whether an advert has the public key of this secret."""
    return crypto.public_of(crypto.private_key(secret)) == advert[32:64]
