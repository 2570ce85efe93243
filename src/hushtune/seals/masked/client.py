"""The client's end of the masked seal: a state machine that takes bytes and gives bytes, and knows no transport.

The trips of a first round, in the order of Bonawitz et al. 2017 and Bell et al. 2020:

    keys      the client advertises two fresh public keys, signed if the roster is pinned
    shares    it Shamir-shares its mask key and its self-mask seed among its peers, encrypted for each
    input     it sends its vector under its self mask and one pairwise mask per peer who shared
    agree     if the roster is pinned, members of a small committee sign who shared and who answered; one list each
    unmask    it reveals, per peer, ONE kind of share: of the self mask of those who sent an input, of the mask key
              of those who did not; only if a quorum of the committee signed the very list it is shown

Unless the server says that it is the last, the next round's keys ride on `input` and its shares on `unmask`, so that a
later round begins with `input`. All keys and seeds are fresh in every round: nothing that is rebuilt in one helps with
another. docs/threat-model.md has the proof.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hushtune.core.errors import RefusedError, WireError
from hushtune.core.randomness import DerivedRandomness
from hushtune.core.wire import pack, unpack
from hushtune.seals.ends import Due, Seat
from hushtune.seals.masked import crypto, shamir
from hushtune.seals.masked.pact import (
    ADVERT_BYTES,
    PARCEL_BYTES,
    PREPARED,
    SIGNATURE_BYTES,
    TAGGED_BYTES,
    Members,
    Pact,
    advert_text,
    agreed,
    agreed_text,
    by_number,
    pair_mask,
    sum_bits,
    to_numbers,
    usable,
    view_of,
)

_PARTS = {"keys": 1, "shares": 1, "input": 3, "agree": 1, "unmask": 3}
_PIECES = ("channel", "mask", "seed", "sharers", "own")
_AFTER = {"shares": ("keys",), "input": ("shares",), "agree": ("input",), "unmask": ("input", "agree")}


@dataclass(repr=False)
class _Round:
    """The secrets of one round, and what has arrived for it."""

    index: int
    channel: bytes  # X25519 secret that encrypts shares
    mask: bytes  # X25519 secret of the pairwise masks; shared out
    seed: bytes  # of the self mask; shared out
    query: str  # digest of the request these keys are for, or PREPARED
    adverts: dict[int, bytes] = field(default_factory=dict)  # of peers: channel key, mask key
    incoming: dict[int, bytes] = field(default_factory=dict)  # encrypted shares of peers who took part, and tags
    sharers: bytes = b""  # all clients who shared, as this client was told
    own: bytes = b""  # the share of the seed that the client keeps itself, in a small federation
    channels: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)  # computed once, never dumped

    @cached_property
    def channel_key(self) -> X25519PrivateKey:
        return crypto.private_key(self.channel)

    @cached_property
    def mask_key(self) -> X25519PrivateKey:
        return crypto.private_key(self.mask)

    def advert(self) -> bytes:
        keys = crypto.public_of(self.channel_key) + crypto.public_of(self.mask_key)
        return keys + crypto.digest(self.seed)


class MaskedClient:
    """One client in one run. `step` takes a message and gives the reply.

    Args:
        pact: the run, the roster and the graph, as this client knows them.
        seat: where the client sits; its identity is needed if the roster is pinned.
    """

    def __init__(self, pact: Pact, seat: Seat) -> None:
        number, identity, pinned = seat.number, seat.identity, pact.roster.keys
        if pinned is not None and (identity is None or identity.public != pinned[number]):
            raise RefusedError("the roster pins a key for this client that is not its own")
        self.pact, self.terms = pact, pact.terms
        self._number = number
        self._near = pact.peers(number)
        self._points = pact.holders(number)
        self._randomness = seat.randomness
        self._identity = identity
        self._now: _Round | None = None
        self._next: _Round | None = None
        self._last = -1  # the highest round that ever had keys
        self._stage = "input"  # the trip answered last
        self._replies: dict[str, tuple[str, bytes]] = {}

    @property
    def done(self) -> bool:
        """Whether it holds no secrets any more."""
        return self._now is None and self._next is None

    def made(self, reply: bytes) -> bool:
        """Whether it gave this very reply."""
        return any(reply == given for _, given in self._replies.values())

    def __repr__(self) -> str:
        return f"MaskedClient(client={self._number}, round={self._last})"

    def step(self, message: bytes, due: Due | None) -> bytes:
        """The reply to one message; the same message again gets the same bytes.

        Args:
            message: the server's.
            due: what the request in it asks for; its vector is computed when the input is due.
        """
        header, parts = unpack(message)
        if header.get("run") != self.pact.run:
            raise RefusedError("a message of another run")
        trip, round_ = header.get("trip"), header.get("round")
        if type(round_) is not int or trip not in _PARTS:
            raise WireError(f"a masked message must have a trip and a round, but got {trip!r} and {round_!r}")
        place, digest = f"{round_} {trip}", hashlib.sha256(message).hexdigest()
        if place in self._replies:
            known, reply = self._replies[place]
            if known != digest:
                raise RefusedError(f"trip '{trip}' of round {round_} was answered already, for another message")
            return reply
        reply = self._trip(str(trip), round_, parts, due, last=header.get("last") is True)
        old = [known for known in self._replies if int(known.split()[0]) < round_ - 1]
        for known in old:  # nobody asks again for what came before the round before; then it is refused
            del self._replies[known]
        self._replies[place] = (digest, reply)
        return reply

    def _trip(self, trip: str, round_: int, parts: list[bytes], due: Due | None, last: bool) -> bytes:
        if len(parts) != _PARTS[trip]:
            raise WireError(f"trip '{trip}' must have {_PARTS[trip]} parts, but got {len(parts)}")
        if trip == "keys":
            return self._keys(round_, parts[0])
        if trip == "input" and self._next is not None and round_ == self._next.index:
            self._now, self._next, self._stage = self._next, None, "shares"
        if self._now is None or round_ != self._now.index or self._stage not in _AFTER[trip]:
            raise RefusedError(f"trip '{trip}' of round {round_} does not follow what this client has done")
        self._stage = trip
        if trip == "shares":
            return pack(_reply("shares", self._now), self._share_out(self._now, self._checked(self._now, parts[0])))
        if trip == "input":
            return self._input(self._now, *parts, due=due, last=last)
        if trip == "agree":
            return self._agree(self._now, parts[0])
        return self._unmask(self._now, *parts)

    # ---- keys and shares -----------------------------------------------------------------------------

    def _fresh(self, index: int, query: str) -> _Round:
        self._last = index
        draw = self._randomness.bytes
        return _Round(index, channel=draw(32), mask=draw(32), seed=draw(32), query=query)

    def _keys(self, round_: int, request: bytes) -> bytes:
        if round_ <= self._last:
            raise RefusedError(f"round {round_} is over; keys are made once for each round")
        self._now, self._next, self._stage = self._fresh(round_, hashlib.sha256(request).hexdigest()), None, "keys"
        return pack(_reply("keys", self._now), self._signed(self._now))

    def _signed(self, round_: _Round) -> bytes:
        advert = round_.advert()
        if self._identity is None or not self.pact.roster.pinned:
            return advert
        text = advert_text(self.pact, round_.index, self._number, round_.query, advert)
        return advert + self._identity.sign(text)

    def _checked(self, round_: _Round, content: bytes) -> dict[int, bytes]:
        """Peers' adverts, their signatures verified if the roster is pinned."""
        roster = self.pact.roster
        size = ADVERT_BYTES + (SIGNATURE_BYTES if roster.pinned else 0)
        found = to_numbers(content, size)
        if not set(found) <= set(self._near):
            raise RefusedError("an advert is of a client that is no peer")
        self._enough(found, "have keys")
        for number, piece in found.items():
            if (why := usable(self.pact, round_.index, number, round_.query, piece)) is not None:
                raise RefusedError(f"the server passed on an advert of '{roster.ids[number]}', but {why}")
        return {number: piece[:ADVERT_BYTES] for number, piece in found.items()}

    def _enough(self, peers: Collection[int], what: str) -> None:
        """Refuses to go on with so few peers that the shares could not be put together."""
        wanted = self.pact.shape.threshold - self.pact.shape.own
        if len(peers) < wanted:
            raise RefusedError(f"{wanted} peers must {what}, but got {len(peers)}")

    def _share_out(self, round_: _Round, adverts: dict[int, bytes]) -> bytes:
        round_.adverts = adverts
        holders, threshold = (
            [n for n in self._points if n in adverts or n == self._number],
            self.pact.shape.threshold,
        )
        points = [self._points[holder] for holder in holders]
        source = _polynomials(round_)
        seeds = shamir.split(round_.seed, points, threshold, source)
        masks = shamir.split(round_.mask, points, threshold, source)
        parcels = {}
        for holder, seed, mask in zip(holders, seeds, masks, strict=True):
            if holder == self._number:
                round_.own, parcel = seed, bytes(PARCEL_BYTES)  # it stays here; others get to know its tag only
            else:
                parcel = crypto.encrypt(self._channel(round_, holder, sender=self._number), seed + mask)
            parcels[holder] = parcel + crypto.tag("seed", holder, seed) + crypto.tag("mask", holder, mask)
        return by_number(parcels, TAGGED_BYTES)

    def _channel(self, round_: _Round, other: int, sender: int) -> bytes:
        """The key that encrypts what `sender` sends to the other of the two."""
        if other not in round_.channels:
            shared = crypto.exchange(round_.channel_key, round_.adverts[other][:32])
            keys = crypto.derive(shared, self.pact.between("channel", round_.index, self._number, other), 64)
            round_.channels[other] = keys[:32], keys[32:]  # from the lower number to the higher, and back
        return round_.channels[other][sender == max(self._number, other)]

    # ---- input, agreement and unmasking --------------------------------------------------------------

    def _members(self, content: bytes, what: str) -> Members:
        """A set of clients that everybody is told alike: this client is in it, and so are enough others."""
        graph = self.pact.shape
        found = Members.read(content, graph.clients)
        if len(found) < graph.needed:
            raise RefusedError(f"{graph.needed} of {graph.clients} clients must have {what}, but got {len(found)}")
        if self._number not in found:
            raise RefusedError(f"the server leaves this client out of those who have {what}")
        return found

    def _input(
        self, round_: _Round, content: bytes, sharers: bytes, request: bytes, *, due: Due | None, last: bool
    ) -> bytes:
        incoming, told = to_numbers(content, TAGGED_BYTES), self._members(sharers, "shared")
        if set(incoming) != {number for number in self._near if number in told}:
            raise RefusedError("the shares must be those of the peers who shared, no more and no less")
        if not set(incoming) <= set(round_.adverts):
            raise RefusedError("a share is from a client whose keys this client never saw")
        self._enough(incoming, "share")
        query = hashlib.sha256(request).hexdigest()
        if round_.query not in (query, PREPARED):
            raise RefusedError("the keys of this round were made for another request")
        round_.incoming, round_.sharers, round_.query = incoming, sharers, query
        if due is None or due.vector is None:
            raise RefusedError("no input is due in this trip")
        vector, bits = due.vector(), sum_bits(due.largest)
        total = vector.astype(f"<u{bits // 8}") + crypto.mask(round_.seed, len(vector), bits)
        view = view_of(query, told)
        for other in incoming:
            public = round_.adverts[other][32:64]
            pair = pair_mask(self.pact, round_.index, round_.mask_key, public, self._number, other, view)
            shift = crypto.mask(pair, len(vector), bits)
            total = total + shift if self._number < other else total - shift
        self._next = None if last else self._fresh(round_.index + 1, PREPARED)
        advert = self._signed(self._next) if self._next is not None else b""
        return pack(_reply("input", round_), total.tobytes(), advert)

    def _answered(self, round_: _Round, content: bytes) -> tuple[Members, bytes]:
        """Who sent an input, as this client is told, and the text that the committee signs about it."""
        answered, sharers = self._members(content, "sent an input"), Members(round_.sharers)
        if not answered <= sharers:
            raise RefusedError("the server names a client that sent an input without having shared")
        view = view_of(round_.query, sharers)
        return answered, agreed_text(self.pact, round_.index, view, answered)

    def _agree(self, round_: _Round, content: bytes) -> bytes:
        if self._number not in self.pact.committee or self._identity is None:
            raise RefusedError("this client is not of those who sign the list")
        answered, text = self._answered(round_, content)
        if not self.pact.whole(answered):
            raise RefusedError(
                f"of {self.pact.shape.degree // 2} clients in a row on the ring {self.pact.shape.gap} may have "
                "dropped out, but the server says that more did"
            )
        return pack(_reply("agree", round_), self._identity.sign(text))

    def _unmask(self, round_: _Round, content: bytes, signatures: bytes, next_adverts: bytes) -> bytes:
        answered, text = self._answered(round_, content)
        if not agreed(self.pact, to_numbers(signatures, SIGNATURE_BYTES), text):
            raise RefusedError(
                f"{self.pact.shape.quorum} of the {self.pact.shape.committee} clients who sign the list of "
                "those who answered must have signed what the server tells this client"
            )
        alive = {other for other in round_.incoming if other in answered}
        self._enough(alive, "have sent an input")
        seeds: dict[int, bytes] = {self._number: round_.own} if round_.own else {}
        masks: dict[int, bytes] = {}
        for other in round_.incoming:
            seed, mask = self._held(round_, other)
            if other in alive and seed:
                seeds[other] = seed
            elif other not in alive and mask:
                masks[other] = mask
        prepared = b""
        if next_adverts and self._next is not None:
            with suppress(WireError, RefusedError):  # what is wrong with the next round must not spoil this one
                prepared = self._share_out(self._next, self._checked(self._next, next_adverts))
        size = shamir.SHARE_BYTES
        self._now = None  # its secrets are of no use any more
        return pack(_reply("unmask", round_), by_number(seeds, size), by_number(masks, size), prepared)

    def _held(self, round_: _Round, other: int) -> tuple[bytes, bytes]:
        """The shares of a peer's seed and mask key; empty if spoilt. A share that does not have the tag which its
        owner gave it is never revealed: so whoever reveals one is known to be wrong itself."""
        content, tags = round_.incoming[other][:PARCEL_BYTES], round_.incoming[other][PARCEL_BYTES:]
        try:
            shares = crypto.decrypt(self._channel(round_, other, sender=other), content)
        except WireError:
            return b"", b""  # others have theirs
        seed, mask = shares[: shamir.SHARE_BYTES], shares[shamir.SHARE_BYTES :]
        seed_tag, mask_tag = tags[: crypto.TAG_BYTES], tags[crypto.TAG_BYTES :]
        return (
            seed if crypto.tag("seed", self._number, seed) == seed_tag else b"",
            mask if crypto.tag("mask", self._number, mask) == mask_tag else b"",
        )

    # ---- between processes ---------------------------------------------------------------------------

    def dump(self) -> bytes:
        """The whole state, secrets included: it belongs where only the client can read it.

        Load the newest dump only, and only once: a client put back to an older one forgets what it revealed. Behind
        `client/release.py` the client's ledger file remembers, and refuses.
        """
        rounds = [_round_to_json(r) for r in (self._now, self._next)]
        replies = {place: [digest, reply.hex()] for place, (digest, reply) in self._replies.items()}
        return json.dumps({"rounds": rounds, "last": self._last, "stage": self._stage, "replies": replies}).encode()

    def load(self, state: bytes) -> MaskedClient:
        """Takes up the state that `dump` gave, in a client made with the same arguments."""
        raw = json.loads(state)
        self._now, self._next = (_round_from_json(r) for r in raw["rounds"])
        self._last, self._stage = raw["last"], raw["stage"]
        self._replies = {place: (digest, bytes.fromhex(reply)) for place, (digest, reply) in raw["replies"].items()}
        return self

    def close(self) -> None:
        """Nothing was begun beside this process."""


def _polynomials(round_: _Round) -> DerivedRandomness:
    """Where the coefficients of a round's shares come from: its channel key, which is never shared out, and the peers.

    A client that was put back to before it shared then shares the same again. Other shares under the same channel keys
    would be a second message under one key and nonce.
    """
    peers = b"".join(number.to_bytes(8, "big") + advert for number, advert in sorted(round_.adverts.items()))
    return DerivedRandomness(hashlib.sha256(b"hushtune shares " + round_.channel + peers).digest())


def _reply(kind: str, round_: _Round) -> dict[str, Any]:
    return {"kind": kind, "round": round_.index}


def _round_to_json(round_: _Round | None) -> Any:
    if round_ is None:
        return None
    pieces = {name: getattr(round_, name).hex() for name in _PIECES}
    tables = {n: {str(k): v.hex() for k, v in getattr(round_, n).items()} for n in ("adverts", "incoming")}
    return {"index": round_.index, "query": round_.query, **pieces, **tables}


def _round_from_json(raw: Any) -> _Round | None:
    if raw is None:
        return None
    pieces: dict[str, Any] = {name: bytes.fromhex(raw[name]) for name in _PIECES}
    tables = {n: {int(k): bytes.fromhex(v) for k, v in raw[n].items()} for n in ("adverts", "incoming")}
    return _Round(index=raw["index"], query=raw["query"], **(pieces | tables))
