"""Quorum: nodes hold ballots in shares, check each one, add the noise, and open only what was asked for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from hushtune.core.arrays import IntArray
from hushtune.core.errors import RefusedError, SettingError, WireError
from hushtune.core.randomness import Randomness
from hushtune.core.roster import NodeEntry, Roster
from hushtune.core.words import up
from hushtune.privacy.bounds import Bound
from hushtune.privacy.noise.base import Noise, Place
from hushtune.privacy.policy import Policy
from hushtune.seals.base import Protected, Seal
from hushtune.seals.ends import Due, Expected, Seat
from hushtune.seals.oracle import Mechanism
from hushtune.seals.quorum.agenda import Agenda, KnownSums
from hushtune.seals.quorum.client import QuorumClient
from hushtune.seals.quorum.engine import MARGIN
from hushtune.seals.quorum.envelopes import ENVELOPE_BYTES, PUBLIC_BYTES
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.node import KIND
from hushtune.seals.quorum.questions import TAIL
from hushtune.seals.quorum.server import QuorumServer
from hushtune.seals.quorum.sharing import KEY_BYTES, crowd

_USUAL = 3
_FRAMING = 200  # headers, lengths and signatures of a message and its reply


@dataclass(frozen=True)
class Quorum(Seal):
    """Nodes of several organisations compute on shares of the ballots, and open only what was asked for.

    There are m = 3, 5 or 7 nodes. Up to t = (m - 1) / 2 of them may pool everything they saw, with the coordinator and
    with any clients, and learn what is opened and nothing else (Ben-Or, Goldwasser, Wigderson 1988), as long as all
    nodes follow the protocol. A client sends one message. Nodes check every ballot without seeing it, add the noise in
    shares of which any m - t suffice, and open the winner's place, an answer, a quotient, or a noisy sum.

    Args:
        dropouts: share of clients that may fail to answer, or send what breaks a rule, in [0, 1); with more, nothing is
            opened.
        corrupt: not used: clients add no noise.
        nodes: m, one of 3, 5 and 7. Default: as many as the roster names; 3, if it names none.
    """

    nodes: int | None = None
    name: ClassVar[str] = "quorum"
    brief: ClassVar[str] = "nodes that hold shares open the winner only"
    kind: ClassVar[str] = KIND
    shown: ClassVar[str] = "quorum: "
    noise_at: ClassVar[Place] = "nodes"
    hides: ClassVar[bool] = True
    computes: ClassVar[bool] = True
    computing: ClassVar[str] = "computed by nodes on shares"
    mechanisms: ClassVar[tuple[Mechanism, ...]] = ("geometric",)
    by_unit: ClassVar[bool] = True
    stateless: ClassVar[bool] = True
    repeats: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nodes is not None:
            crowd(self.nodes)

    @property
    def served_by(self) -> int:
        """m, as the roster or the user says."""
        return self.nodes or _USUAL

    @property
    def most_pooling(self) -> int:
        """t: how many nodes may pool what they saw."""
        return crowd(self.served_by).degree

    def seated(self, nodes: int) -> Quorum:
        """With as many nodes as the roster names."""
        if nodes and self.nodes not in (None, nodes):
            raise SettingError(f"the roster names {nodes} nodes, but got nodes={self.nodes}: leave it out")
        return replace(self, nodes=nodes or self.served_by)

    def noise(self, scale: float) -> Noise:
        """In shares of all nodes."""
        return Noise(scale, self.noise_at, self.served_by)

    def check_nodes(self, nodes: Sequence[NodeEntry]) -> None:
        """Refuses another number of nodes."""
        if len(nodes) != self.served_by:
            raise SettingError(f"the roster must name {self.served_by} nodes, but names {len(nodes)}")

    def check_bounds(self, bounds: Sequence[Bound], units: int) -> None:
        """Refuses vectors that nodes cannot check, and more entries than they can compare."""
        for bound in bounds:
            Agenda(bound, None, {}, self.noise(0.0), units).check()

    def exposed(self, nodes: Sequence[NodeEntry]) -> str | None:
        """More nodes in one pair of hands than may pool what they saw, as far as addresses tell."""
        host, count = max(Counter(node.host for node in nodes).items(), key=lambda item: item[1], default=("", 0))
        if count <= self.most_pooling:
            return None
        where = f"on one machine ({host})" if host else "on the coordinator's own machine"
        return (
            f"{count} of {len(nodes)} nodes are {where}: whoever runs it could pool what more than {self.most_pooling} "
            "of them hold, and see every contribution"
        )

    def traffic(
        self, clients: int, bound: Bound, voters: int, largest: int, request: int, pinned: bool
    ) -> tuple[float, int]:
        """The request with the nodes' keys, and one submission."""
        among, bits = crowd(self.served_by), voters * layout_of(bound).size
        shares = among.degree * KEY_BYTES + (among.nodes - among.degree) * 8 * bits
        keys = among.nodes * (PUBLIC_BYTES + _FRAMING // 2)
        return 2, request + keys + shares + among.nodes * (ENVELOPE_BYTES + 64) + _FRAMING

    def agree(self, policy: Policy, due: Due, clients: int) -> None:
        """Refuses vectors that nodes cannot check, and forms that they cannot compute."""
        assert due.bound is not None
        Agenda(due.bound, due.form, due.blocks, self.noise(0.0), clients).check()

    def protects(self, facts: Protected) -> list[str]:
        """Single contributions, from the coordinator and from nodes, as long as nodes follow the protocol."""
        m, t = self.served_by, self.most_pooling
        named = ", ".join(f"{node.name} ({node.address})" if node.address else node.name for node in facts.nodes)
        some, they = (f"Any {t} of them", "they pool") if t > 1 else ("Any one of them", "it pools")
        ballots = f"its {facts.voters} ballots" if facts.voters > 1 else "one ballot"
        lines = [
            f"Seal 'quorum': {m} nodes hold every client's contribution in shares: {named}. {some}, following the "
            f"protocol, can learn what is listed above and nothing else, even if {they} everything seen with the "
            "coordinator and with any clients.",
            "  Nodes checked every contribution without seeing it. One that breaks a rule is left out, and its sender "
            f"named above: so a client, whatever it sends, has the influence of {ballots} and no more.",
        ]
        if facts.private and facts.answers:
            lines.append(
                f"  Delta in full: for readers of the result {up(self._overflow(facts))} more than stated, the chance "
                f"that noise is larger than the room for it; for {t} of the nodes {up(self._seen(facts))} more, "
                "as long as X25519 or ML-KEM-768, AES-256 and SHA-256 hold."
            )
        lines.append(
            f"TRUSTED: all {m} nodes, to follow the protocol. One that does not can choose the outcome unnoticed, let "
            "any contribution pass or fail, and learn the noisy totals, but no single contribution. "
            f"{t + 1} nodes that pool what they hold see everything."
        )
        if (why := self.exposed(facts.nodes)) is not None:
            lines.append(f"INSECURE SETTING, {why}.")
        if not facts.pinned:
            lines.append(
                "INSECURE SETTING, identities not pinned: the coordinator is trusted not to send ballots of clients "
                "that it invents, or in others' names."
            )
        return lines

    def _overflow(self, facts: Protected) -> float:
        """What noise beyond its room adds to delta: an event of chance s adds (1 + e^epsilon) s."""
        return facts.answers * TAIL * (1 + math.exp(facts.epsilon))

    def _seen(self, facts: Protected) -> float:
        """The same, and the distance of masked comparisons: t to carry each entry over, and a level, and one each."""
        comparisons = facts.answers * (facts.entries * (self.most_pooling + 1) + self.most_pooling)
        return self._overflow(facts) + comparisons * 2.0**-MARGIN * (1 + math.exp(facts.epsilon))

    @classmethod
    def expects(cls, header: Mapping[str, Any], parts: list[bytes], message: bytes) -> Expected:
        """One message: the request, and the keys that nodes made for this run."""
        if not parts:
            raise WireError("a message of a quorum's coordinator must carry the request")
        return Expected(str(header.get("run")), "", parts[0], begins=True, input=True)

    def client(self, seat: Seat) -> QuorumClient:
        """The client's end, which shares its vectors out among nodes of its own roster."""
        if len(seat.roster.nodes) != self.served_by:
            raise RefusedError(
                f"this client's roster must name {self.served_by} nodes, but names {len(seat.roster.nodes)}"
            )
        return QuorumClient(seat)

    def server(self, run: str, roster: Roster, terms: str, first: int = 0, folder: Path | None = None) -> QuorumServer:
        """The coordinator's end, which carries what it cannot open."""
        nodes = [node.name for node in roster.nodes]
        return QuorumServer(run, roster.ids, nodes, self.dropouts, folder, roster.digest())

    def oracle(self, sums: IntArray, bound: Bound, units: int, noise: Noise, randomness: Randomness) -> KnownSums:
        """What nodes would answer, from sums that are known."""
        return KnownSums(sums, Agenda(bound, None, {}, noise, units), randomness)
