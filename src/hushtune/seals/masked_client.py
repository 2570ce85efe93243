"""The client's end of the masked seal: a state machine that takes bytes and gives bytes, and knows no transport.

Four trips for a first round, in the order of Bonawitz et al. 2017 and Bell et al. 2020:

    keys      the client advertises two fresh public keys, signed if the roster is pinned
    shares    it Shamir-shares its mask key and its self-mask seed among its neighbours, encrypted for each
    input     it sends its vector under its self mask and one pairwise mask per neighbour
    unmask    it reveals, per neighbour, ONE kind of share: of the self mask of those who sent an input, of the mask key
              of those who did not

Unless the server says that it is the last, the next round's keys ride on `input` and its shares on `unmask`, so that a
later round costs two trips. All keys and seeds
are fresh in every round: nothing that is rebuilt in one helps with another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hushtune.errors import RefusedError, WireError
from hushtune.identity import Identity, verified
from hushtune.privacy.skellam import IntArray
from hushtune.randomness import Randomness
from hushtune.roster import Roster
from hushtune.seals import crypto, shamir
from hushtune.seals.graph import Shape, neighbours
from hushtune.wire import pack, unpack

ADVERT_BYTES = 96  # two public keys, and a commitment to the self-mask seed
SIGNATURE_BYTES = 64
_SHARES_BYTES = 2 * shamir.SHARE_BYTES


@dataclass(frozen=True)
class Setting:
    """What both ends know and agree on: it is bound into every signature and every key."""

    run: str
    roster: Roster
    shape: Shape
    terms: str = ""  # the run's seal, privacy, noise and plan

    @cached_property
    def _prefix(self) -> str:
        form = self.shape
        content = [self.run, self.roster.digest(), form.clients, form.degree, form.threshold, self.terms]
        return f"hushtune masked 1 {hashlib.sha256(json.dumps(content).encode()).hexdigest()}"

    def purpose(self, role: str, round_: int, *extra: object) -> bytes:
        """One text per use of a key: run, roster, n, degree, threshold, terms, role, round and what else it is for."""
        return " ".join([self._prefix, role, str(round_), *map(str, extra)]).encode()

    def neighbours(self, client: int) -> list[int]:
        """The numbers of a client's neighbours."""
        return list(neighbours(client, self.roster.seed or self.run.encode(), self.shape))

    def between(self, role: str, round_: int, one: int, other: int, *extra: object) -> bytes:
        """One text per use of a key between two clients; the same for both."""
        return self.purpose(role, round_, min(one, other), max(one, other), *extra)


def point(holder: int) -> int:
    """At which point of everybody's polynomials a client has its share (0 is the secret)."""
    return holder + 1


def by_number(parts: dict[int, bytes], size: int) -> bytes:
    """Equal-sized pieces with the client numbers they belong to."""
    return b"".join(number.to_bytes(4, "big") + parts[number] for number in sorted(parts) if len(parts[number]) == size)


def to_numbers(content: bytes, size: int) -> dict[int, bytes]:
    """What `by_number` wrote; a number twice, or a broken piece, is a WireError."""
    step = size + 4
    if len(content) % step:
        raise WireError(f"a list must have pieces of {step} bytes, but got {len(content)} in all")
    starts = range(0, len(content), step)
    found = {int.from_bytes(content[at : at + 4], "big"): content[at + 4 : at + step] for at in starts}
    if len(found) < len(starts):
        raise WireError("a list names a client twice")
    return found


def advert_text(setting: Setting, round_: int, client: int, query: str, advert: bytes) -> bytes:
    """What a client signs: everything that gives its two keys their meaning."""
    return setting.purpose("advert", round_, client, query) + advert


def usable(setting: Setting, round_: int, client: int, query: str, signed: bytes) -> str | None:
    """Why an advert cannot be used: it is not signed by the client's pinned key. None: it can."""
    advert, signature = signed[:ADVERT_BYTES], signed[ADVERT_BYTES:]
    keys = setting.roster.keys
    if keys is not None and not verified(keys[client], signature, advert_text(setting, round_, client, query, advert)):
        return "its keys are not signed by its pinned key"
    return None


@dataclass
class _Round:
    """The secrets of one round, and what has arrived for it."""

    index: int
    channel: bytes  # X25519 secret that encrypts shares
    mask: bytes  # X25519 secret of the pairwise masks; shared out
    seed: bytes  # of the self mask; shared out
    query: str  # digest of the request these keys are for, or PREPARED
    adverts: dict[int, bytes] = field(default_factory=dict)  # of neighbours: channel key, mask key
    incoming: dict[int, bytes] = field(default_factory=dict)  # encrypted shares of neighbours who took part

    @cached_property
    def channel_key(self) -> X25519PrivateKey:
        return crypto.private_key(self.channel)

    @cached_property
    def mask_key(self) -> X25519PrivateKey:
        return crypto.private_key(self.mask)

    @cached_property
    def shared(self) -> dict[int, bytes]:
        """Channel exchanges with neighbours: one for both directions."""
        return {other: crypto.exchange(self.channel_key, advert[:32]) for other, advert in self.adverts.items()}

    def advert(self) -> bytes:
        keys = crypto.public_of(self.channel_key) + crypto.public_of(self.mask_key)
        return keys + crypto.digest(self.seed)


Answer = Callable[[bytes], tuple[IntArray, int]]


class MaskedClient:
    """One client in one run. `step` takes a message and gives the reply.

    Args:
        setting: the run, the roster and the graph, as this client knows them.
        number: the client's place in the roster.
        randomness: where its keys come from.
        identity: its signing key; needed if the roster is pinned.
    """

    def __init__(self, setting: Setting, number: int, randomness: Randomness, identity: Identity | None = None) -> None:
        if setting.roster.keys is not None and (identity is None or identity.public != setting.roster.keys[number]):
            raise RefusedError("the roster pins a key for this client that is not its own")
        self._setting = setting
        self._number = number
        self._randomness = randomness
        self._identity = identity
        self._now: _Round | None = None
        self._next: _Round | None = None
        self._last = -1  # the highest round that ever had keys
        self._stage = "input"  # the trip answered last
        self._replies: dict[str, tuple[str, bytes]] = {}

    @property
    def terms(self) -> str:
        """What the run began with."""
        return self._setting.terms

    def __repr__(self) -> str:
        return f"MaskedClient(client={self._number}, round={self._last})"

    def step(self, message: bytes, answer: Answer) -> bytes:
        """The reply to one message; the same message again gets the same bytes.

        `answer` is called with the request's bytes when the input is due; it returns the noisy vector and the number of
        bits it is summed in.
        """
        header, parts = unpack(message)
        if header.get("run") != self._setting.run:
            raise RefusedError("a message of another run")
        trip, round_ = header.get("trip"), header.get("round")
        if type(round_) is not int or trip not in ("keys", "shares", "input", "unmask"):
            raise WireError(f"a masked message must have a trip and a round, but got {trip!r} and {round_!r}")
        place, digest = f"{round_} {trip}", hashlib.sha256(message).hexdigest()
        if place in self._replies:
            known, reply = self._replies[place]
            if known != digest:
                raise RefusedError(f"trip '{trip}' of round {round_} was answered already, for another message")
            return reply
        reply = self._trip(str(trip), round_, parts, answer, last=header.get("last") is True)
        self._replies[place] = (digest, reply)
        return reply

    def _trip(self, trip: str, round_: int, parts: list[bytes], answer: Answer, last: bool) -> bytes:
        wanted = {"keys": 1, "shares": 1, "input": 2, "unmask": 3}[trip]
        if len(parts) != wanted:
            raise WireError(f"trip '{trip}' must have {wanted} parts, but got {len(parts)}")
        if trip == "keys":
            return self._keys(round_, parts[0])
        if trip == "input" and self._next is not None and round_ == self._next.index:
            self._now, self._next, self._stage = self._next, None, "shares"
        before = {"shares": "keys", "input": "shares", "unmask": "input"}[trip]
        if self._now is None or round_ != self._now.index or self._stage != before:
            raise RefusedError(f"trip '{trip}' of round {round_} does not follow what this client has done")
        self._stage = trip
        if trip == "shares":
            return pack(_reply("shares", self._now), self._share_out(self._now, self._checked(self._now, parts[0])))
        if trip == "input":
            return self._input(self._now, parts[0], parts[1], answer, last)
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
        if self._identity is None:
            return advert
        text = advert_text(self._setting, round_.index, self._number, round_.query, advert)
        return advert + self._identity.sign(text)

    def _checked(self, round_: _Round, content: bytes) -> dict[int, bytes]:
        """Neighbours' adverts, their signatures verified if the roster is pinned."""
        roster = self._setting.roster
        size = ADVERT_BYTES + (SIGNATURE_BYTES if roster.pinned else 0)
        found = to_numbers(content, size)
        if not set(found) <= set(self._setting.neighbours(self._number)):
            raise RefusedError("an advert is of a client that is no neighbour")
        if len(found) < self._setting.shape.threshold:
            raise RefusedError(f"{self._setting.shape.threshold} neighbours must have keys, but got {len(found)}")
        for number, piece in found.items():
            if (why := usable(self._setting, round_.index, number, round_.query, piece)) is not None:
                raise RefusedError(f"the server passed on an advert of '{roster.ids[number]}', but {why}")
        return {number: piece[:ADVERT_BYTES] for number, piece in found.items()}

    def _share_out(self, round_: _Round, adverts: dict[int, bytes]) -> bytes:
        round_.adverts = adverts
        holders, threshold = sorted(adverts), self._setting.shape.threshold
        points = [point(holder) for holder in holders]
        seeds = shamir.split(round_.seed, points, threshold, self._randomness)
        masks = shamir.split(round_.mask, points, threshold, self._randomness)
        boxes = {
            holder: crypto.encrypt(self._channel(round_, holder, self._number), seed + mask)
            for holder, seed, mask in zip(holders, seeds, masks, strict=True)
        }
        return by_number(boxes, BOX_BYTES)

    def _channel(self, round_: _Round, other: int, sender: int) -> bytes:
        """The key that encrypts what `sender` sends to the other of the two."""
        purpose = self._setting.between("channel", round_.index, self._number, other, sender)
        return crypto.derive(round_.shared[other], purpose)

    # ---- input and unmasking -------------------------------------------------------------------------

    def _input(self, round_: _Round, content: bytes, request: bytes, answer: Answer, last: bool) -> bytes:
        incoming = to_numbers(content, BOX_BYTES)
        if not set(incoming) <= set(round_.adverts):
            raise RefusedError("a share is from a client whose keys this client never saw")
        if len(incoming) < self._setting.shape.threshold:
            raise RefusedError(f"{self._setting.shape.threshold} neighbours must share, but got {len(incoming)}")
        query = hashlib.sha256(request).hexdigest()
        if round_.query not in (query, PREPARED):
            raise RefusedError("the keys of this round were made for another request")
        round_.incoming = incoming
        vector, bits = answer(request)
        total = vector.astype(f"<u{bits // 8}") + crypto.mask(round_.seed, len(vector), bits)
        for other in incoming:
            public = round_.adverts[other][32:64]
            pair = pair_mask(self._setting, round_.index, round_.mask_key, public, self._number, other, query)
            shift = crypto.mask(pair, len(vector), bits)
            total = total + shift if self._number < other else total - shift
        self._next = None if last else self._fresh(round_.index + 1, PREPARED)
        advert = self._signed(self._next) if self._next is not None else b""
        return pack(_reply("input", round_), total.tobytes(), advert)

    def _unmask(self, round_: _Round, alive_list: bytes, dropped_list: bytes, next_adverts: bytes) -> bytes:
        alive, dropped = set(to_numbers(alive_list, 0)), set(to_numbers(dropped_list, 0))
        if alive & dropped:
            raise RefusedError("the server asks for both kinds of shares of one client")
        if alive | dropped != set(round_.incoming):
            raise RefusedError("the server must say of every neighbour who shared whether it sent an input")
        if len(alive) < self._setting.shape.threshold:
            raise RefusedError(
                f"{self._setting.shape.threshold} neighbours must have sent an input, but got {len(alive)}"
            )
        seeds: dict[int, bytes] = {}
        masks: dict[int, bytes] = {}
        for other, box in round_.incoming.items():
            try:
                content = crypto.decrypt(self._channel(round_, other, other), box)
            except WireError:
                continue  # that neighbour's shares are spoilt here; others have theirs
            (seeds if other in alive else masks)[other] = (
                content[: shamir.SHARE_BYTES] if other in alive else content[shamir.SHARE_BYTES :]
            )
        prepared = b""
        if next_adverts and self._next is not None:
            with suppress(WireError, RefusedError):  # what is wrong with the next round must not spoil this one
                prepared = self._share_out(self._next, self._checked(self._next, next_adverts))
        size = shamir.SHARE_BYTES
        self._now = None  # its secrets are of no use any more
        return pack(_reply("unmask", round_), by_number(seeds, size), by_number(masks, size), prepared)

    # ---- between processes ---------------------------------------------------------------------------

    def dump(self) -> bytes:
        """The whole state, secrets included: it belongs where only the client can read it."""
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


def _reply(kind: str, round_: _Round) -> dict[str, Any]:
    return {"kind": kind, "round": round_.index}


BOX_BYTES = _SHARES_BYTES + 16
PREPARED = hashlib.sha256(b"the query follows with the input").hexdigest()


def pair_mask(
    setting: Setting, round_: int, key: X25519PrivateKey, public: bytes, one: int, other: int, query: str
) -> bytes:
    """The seed of two neighbours' pairwise mask; it cancels only if both answer the same query."""
    return crypto.derive(crypto.exchange(key, public), setting.between("mask", round_, one, other, query))


def _round_to_json(round_: _Round | None) -> Any:
    if round_ is None:
        return None
    secrets = {name: getattr(round_, name).hex() for name in ("channel", "mask", "seed")}
    secrets["query"] = round_.query
    tables = {n: {str(k): v.hex() for k, v in getattr(round_, n).items()} for n in ("adverts", "incoming")}
    return {"index": round_.index, **secrets, **tables}


def _round_from_json(raw: Any) -> _Round | None:
    if raw is None:
        return None
    channel, mask, seed = (bytes.fromhex(raw[name]) for name in ("channel", "mask", "seed"))
    adverts, incoming = ({int(k): bytes.fromhex(v) for k, v in raw[n].items()} for n in ("adverts", "incoming"))
    return _Round(raw["index"], channel, mask, seed, raw["query"], adverts, incoming)
