"""What both ends of the masked seal know: the pact of a run, how its messages are laid out, and what clients sign."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hushtune.core.errors import WireError
from hushtune.core.identity import verified
from hushtune.core.roster import Roster
from hushtune.seals.masked import crypto, shamir
from hushtune.seals.masked.graph import Shape, committee, peers, widest_gap

ADVERT_BYTES = 96  # two public keys, and a commitment to the self-mask seed
SIGNATURE_BYTES = 64
PARCEL_BYTES = 2 * shamir.SHARE_BYTES + 16
TAGGED_BYTES = PARCEL_BYTES + 2 * crypto.TAG_BYTES  # a parcel: two encrypted shares; and their tags
PREPARED = hashlib.sha256(b"the query follows with the input").hexdigest()


@dataclass(frozen=True)
class Pact:
    """What both ends of a run know and agree on: it is bound into every signature and every key."""

    run: str
    roster: Roster
    shape: Shape
    terms: str = ""  # the run's seal, privacy, noise and events

    @cached_property
    def _prefix(self) -> str:
        graph = self.shape
        numbers = [graph.clients, graph.degree, graph.threshold, graph.needed, graph.own]
        content = [self.run, self.roster.digest(), *numbers, self.terms]
        return f"hushtune masked 1 {hashlib.sha256(json.dumps(content).encode()).hexdigest()}"

    @cached_property
    def _seed(self) -> bytes:
        return self.roster.seed or self.run.encode()

    @cached_property
    def committee(self) -> frozenset[int]:
        """The clients who sign what everybody is told; nobody signs without pinned keys."""
        return frozenset(committee(self._seed, self.shape) if self.roster.pinned else ())

    def peers(self, client: int) -> tuple[int, ...]:
        """The numbers of a client's peers."""
        return tuple(peers(client, self._seed, self.shape))

    def holders(self, client: int) -> dict[int, int]:
        """The numbers of those who hold shares of a client's secrets, each with the point at which it does.

        Points count from 1: 0 is where the secret is.
        """
        among = [*self.peers(client), *([client] if self.shape.own else [])]
        return {number: at + 1 for at, number in enumerate(among)}

    def whole(self, answered: Members) -> bool:
        """Whether the clients outside a list are spread out enough not to cut the graph of the others."""
        absent = [number for number in range(self.shape.clients) if number not in answered]
        return widest_gap(absent, self._seed, self.shape) <= self.shape.gap

    def purpose(self, role: str, round_: int, *extra: object) -> bytes:
        """One text per use of a key: run, roster, n, degree, threshold, terms, role, round and what else it is for."""
        return " ".join([self._prefix, role, str(round_), *map(str, extra)]).encode()

    def between(self, role: str, round_: int, one: int, other: int, *extra: object) -> bytes:
        """One text per use of a key between two clients; the same for both."""
        low, high = (one, other) if one < other else (other, one)
        return self.purpose(role, round_, low, high, *extra)


# ---- lists on the wire -------------------------------------------------------------------------------


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


@dataclass(frozen=True)
class Members:
    """A set of clients as bits, one for each client of the roster: the same bytes for everybody."""

    bits: bytes

    @classmethod
    def of(cls, numbers: Iterable[int], clients: int) -> Members:
        """The set of the given numbers."""
        return cls(sum(1 << number for number in set(numbers)).to_bytes(-(-clients // 8), "little"))

    @classmethod
    def read(cls, content: bytes, clients: int) -> Members:
        """The set on the wire; one of another size, or with numbers that do not exist, is a WireError."""
        if len(content) != -(-clients // 8) or int.from_bytes(content, "little") >> clients:
            raise WireError(f"a set of clients must have {clients} bits, but got {len(content)} bytes")
        return cls(content)

    def __contains__(self, number: int) -> bool:
        return bool(self.bits[number >> 3] >> (number & 7) & 1)

    def __len__(self) -> int:
        return int.from_bytes(self.bits, "little").bit_count()

    def __le__(self, other: Members) -> bool:
        return not int.from_bytes(self.bits, "little") & ~int.from_bytes(other.bits, "little")


# ---- what is signed, and what masks are made of ------------------------------------------------------


def advert_text(pact: Pact, round_: int, client: int, query: str, advert: bytes) -> bytes:
    """What a client signs: everything that gives its two keys their meaning."""
    return pact.purpose("advert", round_, client, query) + advert


def usable(pact: Pact, round_: int, client: int, query: str, signed: bytes) -> str | None:
    """Why an advert cannot be used: it is not signed by the client's pinned key. None: it can."""
    advert, signature = signed[:ADVERT_BYTES], signed[ADVERT_BYTES:]
    keys = pact.roster.keys
    if keys is not None and not verified(keys[client], signature, advert_text(pact, round_, client, query, advert)):
        return "its keys are not signed by its pinned key"
    return None


def view_of(query: str, sharers: Members) -> str:
    """One text per question and set of clients who shared their secrets: masks cancel between equal views only."""
    return hashlib.sha256(query.encode() + sharers.bits).hexdigest()


def agreed_text(pact: Pact, round_: int, view: str, answered: Members) -> bytes:
    """What a member of the committee signs, once for each round: what it was asked, who shared, and who answered."""
    return pact.purpose("answered", round_, view) + answered.bits


def agreed(pact: Pact, signatures: dict[int, bytes], text: bytes) -> bool:
    """Whether a quorum of the committee signed the text."""
    keys = pact.roster.keys
    if keys is None:
        return True
    signed = (n in pact.committee and verified(keys[n], piece, text) for n, piece in signatures.items())
    return sum(signed) >= pact.shape.quorum


def pair_mask(pact: Pact, round_: int, key: X25519PrivateKey, public: bytes, one: int, other: int, view: str) -> bytes:
    """The seed of two peers' pairwise mask; it cancels only if both have the same view."""
    return crypto.derive(crypto.exchange(key, public), pact.between("mask", round_, one, other, view))


def sum_bits(largest: int) -> int:
    """Bits in which a sum of at most this absolute value does not wrap: 32, or 64."""
    return 32 if largest < 2**31 else 64
