"""What nodes do together in one step of a run: agree on the list, toss a coin, sign, check every ballot, add up.

It is a program for one node (`hushtune.seals.quorum.engine`). The order is what protects ballots:

1. *One list.* Every node says which submissions it holds, by one digest, and commits to its part of the coin.
2. *One coin*, tossed when all submissions are fixed: a client cannot choose a ballot that its test misses.
3. *One digest* of run, step, request, list and coin, which ALL nodes have signed before any figure leaves. Masks are
   derived from it. With two coins under the same masks, or two coins told to two nodes, whole ballots could be read.
4. *Checks*, first of all ballots in one figure, and only if that fails of each. A bad one is left out, and named.
5. *Sums* of the others, if there are enough of them; else nothing is opened.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hushtune.core.errors import AbortedError, WireError
from hushtune.core.identity import Identity, verified
from hushtune.core.randomness import DerivedRandomness
from hushtune.core.roster import Id
from hushtune.seals.quorum.checks import Figures, masked, passed
from hushtune.seals.quorum.engine import Steps
from hushtune.seals.quorum.field import SMALL, Elements
from hushtune.seals.quorum.layout import Layout
from hushtune.seals.quorum.sharing import KEY_BYTES, Common, Crowd, Group

_DIGEST = 32
_SIGNATURE = 64
_SHOWN = 2**18  # ballots whose figures are shown in one round: of 7 nodes, 28 MiB in a message
_AT_ONCE = 1024  # clients whose ballots are copied at a time: a million are held once, and never twice


@dataclass(frozen=True, slots=True)
class Held:
    """One client's submission, as one node holds it.

    Args:
        client: its name.
        root: one digest for the submission, the same at all nodes.
        ballots: this node's shares of its bits, shape (voters, size).
    """

    client: Id
    root: bytes
    ballots: Elements = field(repr=False)


@dataclass(frozen=True)
class Step:
    """What one step of a run asks of nodes, from the request that clients bound into their envelopes.

    Args:
        run: its id.
        number: which opening of the run.
        request: the request's digest.
        layout: how ballots are written.
        needed: the fewest clients whose ballots keep to the rules.
    """

    run: str
    number: int
    request: bytes
    layout: Layout
    needed: int

    def about(self, held: Sequence[Held]) -> bytes:
        """One digest for run, step, request and a list of submissions: names and what each client sent, in order."""
        told = hashlib.sha256(f"hushtune quorum step {self.run} {self.number} ".encode() + self.request)
        for one in held:
            told.update(len(one.client).to_bytes(2, "big") + one.client.encode() + one.root)
        return told.digest()


@dataclass(frozen=True)
class Node:
    """One node, as it knows itself and the others.

    Args:
        among: how many there are.
        number: this node's, from 1.
        identity: its signing key.
        publics: the keys of all nodes' signatures, in order.
        secret: 32 bytes of this run: all that the node draws is derived from them, so that one that restarts
            repeats what it sent and draws nothing again.
    """

    among: Crowd
    number: int
    identity: Identity
    publics: Sequence[bytes]
    secret: bytes = field(repr=False)

    def drawn(self, what: str, *about: bytes) -> DerivedRandomness:
        """This node's own random numbers for one use: the same whenever it is about the same."""
        told = b"".join(len(one).to_bytes(8, "big") + one for one in (what.encode(), *about))
        return DerivedRandomness(hmac.new(self.secret, told, hashlib.sha256).digest())


@dataclass(frozen=True)
class Sums:
    """What a node holds when all checks are done.

    Args:
        shares: of the sums, in the small field.
        digest: what all nodes have signed.
        basis: one digest for that, and for whose ballots are in the sums.
        clients: whose ballots are in the sums.
        bad: clients whose ballots broke a rule.
    """

    shares: Elements = field(repr=False)
    digest: bytes
    basis: bytes
    clients: tuple[Id, ...]
    bad: tuple[Id, ...]


def prepared(node: Node, step: Step, held: Sequence[Held]) -> Steps[Sums]:
    """From submissions to sums. Nothing that depends on a ballot leaves before all nodes have signed one digest.

    Args:
        node: this one.
        step: what is asked.
        held: the submissions of the list, in order; all nodes must hold the same.
    """
    about = step.about(held)
    common = yield from _keys(node, about)
    coin = yield from _coin(node, about)
    digest = hashlib.sha256(b"hushtune quorum digest" + about + coin).digest()
    yield from _sign(node, digest)
    fine = yield from _checked(node, step.layout, held, common, digest)
    good = _by_client(fine, held)
    kept = [one for one, keeps in zip(held, good, strict=True) if keeps]
    bad = tuple(one.client for one, keeps in zip(held, good, strict=True) if not keeps)
    if len(held) - len(bad) < step.needed:
        raise AbortedError(
            f"ballots of {step.needed} clients must be valid, but got {len(held) - len(bad)}: nothing is opened"
        )
    totals = SMALL.total(np.stack([SMALL.total(ballots) for ballots in _blocks(kept, step.layout)]))
    sums = step.layout.sums(totals, sum(len(one.ballots) for one in kept))
    return Sums(sums, digest, _kept(digest, kept), tuple(one.client for one in kept), bad)


def _blocks(held: Sequence[Held], layout: Layout) -> Iterator[Elements]:
    """All ballots, some clients at a time, shape (ballots, size); one without any if there are none."""
    nothing = np.zeros((0, layout.size), np.uint64)
    for at in range(0, max(1, len(held)), _AT_ONCE):
        yield np.concatenate([nothing, *(one.ballots for one in held[at : at + _AT_ONCE])])


def _kept(digest: bytes, kept: Sequence[Held]) -> bytes:
    """What all nodes have signed, and whose ballots this node has kept. Noise follows from both, and nodes compare it
    before they answer: of two that kept different ballots, a third could read the difference.
    """
    told = hashlib.sha256(b"hushtune quorum kept" + digest)
    for one in kept:
        told.update(len(one.client).to_bytes(2, "big") + one.client.encode())
    return told.digest()


def _keys(node: Node, about: bytes) -> Steps[Common]:
    """The keys of groups: the first of each group draws its key, and gives it to the others."""
    own = {
        group: node.drawn("group", about, bytes(group)).bytes(KEY_BYTES)
        for group in node.among.groups
        if group[0] == node.number
    }
    got = yield [b"".join(key for group, key in own.items() if peer in group) for peer in node.among.points]
    keys: dict[Group, bytes] = {}
    for peer, content in zip(node.among.points, got, strict=True):
        mine = [group for group in node.among.groups if group[0] == peer and node.number in group]
        if len(content) != KEY_BYTES * len(mine):
            raise WireError(f"node {peer} must send {len(mine)} keys")
        keys |= {group: content[KEY_BYTES * at :][:KEY_BYTES] for at, group in enumerate(mine)}
    return Common(SMALL, node.among, node.number, dict(sorted(keys.items())))


def _coin(node: Node, about: bytes) -> Steps[bytes]:
    """A coin that no node can choose: all commit to their parts before any is shown."""
    part = node.drawn("coin", about).bytes(_DIGEST)
    got = yield [about + _committed(node.number, about, part)] * node.among.nodes
    if any(len(one) != 2 * _DIGEST or one[:_DIGEST] != about for one in got):
        raise AbortedError("nodes do not hold the same list of submissions: nothing is checked or opened")
    shown = yield [part] * node.among.nodes
    for peer, (commitment, part) in enumerate(zip(got, shown, strict=True), 1):
        if len(part) != _DIGEST or not hmac.compare_digest(commitment[_DIGEST:], _committed(peer, about, part)):
            raise AbortedError(f"node {peer} shows another coin than it committed to: nothing is opened")
    return hashlib.sha256(b"hushtune quorum coin" + b"".join(shown)).digest()


def _committed(number: int, about: bytes, part: bytes) -> bytes:
    return hashlib.sha256(b"hushtune quorum commitment" + bytes([number]) + about + part).digest()


def _sign(node: Node, digest: bytes) -> Steps[None]:
    """All nodes have signed the same digest, or nothing goes on."""
    got = yield [node.identity.sign(digest)] * node.among.nodes
    for peer, (public, signature) in enumerate(zip(node.publics, got, strict=True), 1):
        if len(signature) != _SIGNATURE or not verified(public, signature, digest):
            raise AbortedError(f"node {peer} has not signed the same list and coin: nothing is checked or opened")


def _checked(node: Node, layout: Layout, held: Sequence[Held], common: Common, digest: bytes) -> Steps[np.ndarray]:
    """Which ballots keep to the rules."""
    rules = Figures(layout, digest)
    figures = np.concatenate([rules.of(ballots) for ballots in _blocks(held, layout)], axis=1)
    if (yield from _passed(node, masked(rules.batched(figures), common, digest + b" all"))).all():
        return np.ones(figures.shape[1], dtype=bool)
    fine = []
    for at in range(0, figures.shape[1], _SHOWN):
        some = masked(figures[:, at : at + _SHOWN], common, digest + b" each from %d" % at)
        fine.append((yield from _passed(node, some)))
    return np.concatenate(fine)


def _passed(node: Node, figures: Elements) -> Steps[np.ndarray]:
    got = yield [SMALL.to_bytes(figures)] * node.among.nodes
    opened: Mapping[int, Elements] = {
        peer: SMALL.from_bytes(content, figures.size).reshape(figures.shape) for peer, content in enumerate(got, 1)
    }
    return passed(node.among, opened)


def _by_client(fine: np.ndarray, held: Sequence[Held]) -> list[bool]:
    """A client's ballots count together, or not at all."""
    ends = np.cumsum([len(one.ballots) for one in held])
    return [bool(fine[end - len(one.ballots) : end].all()) for end, one in zip(ends, held, strict=True)]
