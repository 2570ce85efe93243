"""What a seal is: how single contributions stay hidden, and how many may be missing or dishonest.

What its two ends say to each other is in `hushtune.seals.ends`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from hushtune.core.arrays import IntArray
from hushtune.core.checks import number
from hushtune.core.codec import fields_to_json
from hushtune.core.errors import SettingError
from hushtune.core.randomness import Randomness
from hushtune.core.registry import Registry
from hushtune.core.roster import NodeEntry, Roster
from hushtune.privacy.bounds import Bound
from hushtune.privacy.noise.base import Noise, Place
from hushtune.privacy.noise.skellam import reach
from hushtune.privacy.policy import Policy
from hushtune.seals.ends import ClientEnd, Due, Expected, Seat, ServerEnd
from hushtune.seals.oracle import Mechanism, Oracle


def floor_share(share: float, clients: int) -> int:
    """floor(share * clients) with the share as written: .3 of 10 is 3, though the float .3 is below 3/10."""
    return int(Fraction(str(share)) * clients)


SEAL_CLASSES: Registry[Seal] = Registry("seal", own="hushtune.seals.registry", group="hushtune.seals")


@dataclass(frozen=True)
class Seal:
    """How contributions stay hidden, and how many may be missing or dishonest.

    Args:
        dropouts: share of clients that may fail to answer, in [0, 1); the round aborts when more do, and nothing is
            opened.
        corrupt: share of clients that may collude or add no noise, in [0, 1): the noise is calibrated to the shares of
            the others.
    """

    dropouts: float = 0.1
    corrupt: float = 0.1
    name: ClassVar[str]
    kind: ClassVar[str]  # of its messages
    brief: ClassVar[str] = ""  # who sees what, in a few words
    shown: ClassVar[str] = ""  # before the names of its trips, while they are under way
    noise_at: ClassVar[Place] = "parties"  # who adds the noise
    shows_each: ClassVar[bool] = False  # whether the server sees every client's own contribution
    hides: ClassVar[bool] = False  # whether even a server that lies sees no single one, if keys are pinned
    computes: ClassVar[bool] = False  # whether it can compute a form of a sum before anything is opened
    computing: ClassVar[str] = ""  # how, in words
    mechanisms: ClassVar[tuple[Mechanism, ...]] = ()  # by which it answers questions about sums that stay hidden
    by_unit: ClassVar[bool] = False  # whether each unit's vector is sealed by itself, so that each can be checked
    stateless: ClassVar[bool] = False  # whether one message is the whole conversation
    repeats: ClassVar[bool] = False  # whether an opening that was interrupted goes on, with the answers it had given
    keeps_replies: ClassVar[bool] = False  # whether its client's end keeps replies; ledgers then hold their digests

    def __init_subclass__(cls, **settings: Any) -> None:
        """Makes a seal known by its name, to whoever reads a request or a result."""
        super().__init_subclass__(**settings)
        if "name" in vars(cls):
            SEAL_CLASSES.claim(cls.name, cls)

    def __post_init__(self) -> None:
        for name in ("dropouts", "corrupt"):
            object.__setattr__(self, name, number(name, getattr(self, name), 0, 1, "[)"))

    def needed(self, clients: int) -> int:
        """The fewest answers that complete a round.

        Args:
            clients: how many are in the roster.
        """
        return clients - floor_share(self.dropouts, clients)

    def honest(self, clients: int) -> int:
        """The fewest honest answers in a completed round: these alone must carry the noise.

        A client that took part and reads the opened sum can subtract what it sent itself, so that at least one answer
        never counts, however few clients there are and whatever `corrupt` says.

        Args:
            clients: how many are in the roster.
        """
        needed, corrupt = self.needed(clients), floor_share(self.corrupt, clients)
        count = needed - corrupt if corrupt else max(needed, 2) - 1
        if count < 1:
            raise SettingError(
                f"`dropouts + corrupt < 1` must leave an honest client, but got dropouts={self.dropouts}, "
                f"corrupt={self.corrupt} with {clients} clients"
            )
        return count

    def noise(self, scale: float) -> Noise:
        """Noise of that scale, from those who add it under this seal.

        Args:
            scale: standard deviation, in steps of the integer grid.
        """
        return Noise(scale, self.noise_at)

    def to_json(self) -> dict[str, Any]:
        """The seal's name and its settings, as plain values."""
        return {"name": self.name, **fields_to_json(self)}

    @property
    def served_by(self) -> int:
        """How many nodes compute for the clients; 0: the coordinator alone does what is to be done."""
        return 0

    def seated(self, nodes: int) -> Seal:
        """The seal of a run whose roster names so many nodes, 0 if none.

        Args:
            nodes: how many.
        """
        return self

    def check_nodes(self, nodes: Sequence[NodeEntry]) -> None:
        """Refuses nodes that this seal cannot be run by.

        Args:
            nodes: those of a roster.
        """

    def check_bounds(self, bounds: Sequence[Bound], units: int) -> None:
        """Refuses vectors that nobody could compute with.

        Args:
            bounds: of all that a method opens.
            units: how many vectors there are in a sum.
        """

    def exposed(self, nodes: Sequence[NodeEntry]) -> str | None:
        """Why its promise does not hold with these nodes; None: it does.

        Args:
            nodes: those of a roster.
        """
        return None

    def check(self, clients: int) -> None:
        """Refuses numbers that cannot be met with so many clients.

        Args:
            clients: how many are in the roster.
        """
        self.honest(clients)

    def check_privacy(self, private: bool) -> None:
        """Refuses to run without epsilon, or with it, if the seal is for the other case only.

        Args:
            private: whether the run has an epsilon.
        """

    def traffic(
        self, clients: int, bound: Bound, voters: int, largest: int, request: int, pinned: bool
    ) -> tuple[float, int]:
        """Messages and bytes, both ways, of an average client in a run with one sum, nobody dropping out.

        Args:
            clients: in the roster.
            bound: on one unit's vector.
            voters: units of each client.
            largest: the largest absolute value of an entry of the sum.
            request: the request's bytes.
            pinned: whether identities are pinned.
        """
        raise SettingError(f"seal '{self.name}' does not say what it sends")

    @property
    def insecure(self) -> str | None:
        """Why its promise does not hold with these settings; None: it does."""
        return None

    def agree(self, policy: Policy, due: Due, clients: int) -> None:
        """Refuses what a client's policy does not allow under this seal, or what cannot be computed.

        Args:
            policy: the client's own.
            due: what a request asks of the seal.
            clients: how many are in the roster.
        """

    def protects(self, facts: Protected) -> list[str]:
        """Who sees what under this seal, and who is trusted with what: lines of the privacy statement.

        Args:
            facts: what the lines depend on.
        """
        raise SettingError(f"seal '{self.name}' does not say what it protects")

    def claims(self, due: Due, clients: int) -> float | None:
        """Bits of smudging that an opening must state; None: none.

        Args:
            due: what was opened.
            clients: how many were asked.
        """
        return None

    @classmethod
    def expects(cls, header: Mapping[str, Any], parts: list[bytes], message: bytes) -> Expected:
        """What a message of this seal's kind is, told from the message alone.

        Args:
            header: the message's header.
            parts: its parts.
            message: all of it.
        """
        raise SettingError(f"seal '{cls.name}' has no client's end")

    def client(self, seat: Seat) -> ClientEnd:
        """The client's end.

        Args:
            seat: where it sits.
        """
        raise SettingError(f"seal '{self.name}' has no client's end")

    def server(self, run: str, roster: Roster, terms: str, first: int = 0, folder: Path | None = None) -> ServerEnd:
        """The server's end.

        Args:
            run: the run's id.
            roster: its clients, and the nodes that compute for them.
            terms: one text for the run's seal, privacy, noise and events.
            first: larger than any round of the run's earlier server's ends.
            folder: where it may keep what it goes on with when the run is taken up again; None: it is not.
        """
        raise SettingError(f"seal '{self.name}' has no server's end")

    def oracle(self, sums: IntArray, bound: Bound, units: int, noise: Noise, randomness: Randomness) -> Oracle:
        """What answers questions about sums that are known, as in a marked simulation.

        Args:
            sums: of all units' scores, shape (candidates,).
            bound: what was announced.
            units: how many units there are, those included that did not answer.
            noise: what the run's answers get.
            randomness: the simulation's.
        """
        raise SettingError(f"seal '{self.name}' answers no questions about sums that stay hidden")


@dataclass(frozen=True)
class Protected:
    """What a seal's words in the privacy statement depend on.

    Args:
        clients: how many were asked.
        pinned: whether their keys were pinned.
        private: whether the run has an epsilon.
        smudging: the fewest bits of smudging that were reached.
        nodes: those who computed for the clients.
        epsilon: what the run costs; 0 without epsilon.
        answers: how many answers about sums that stay hidden may be given.
        entries: how many sums there are.
        voters: how many units each client is split into.
    """

    clients: int
    pinned: bool
    private: bool
    smudging: float
    nodes: tuple[NodeEntry, ...] = ()
    epsilon: float = 0.0
    answers: int = 0
    entries: int = 0
    voters: int = 1


UNSEEN = (
    "  Nobody can check a single contribution: a client that lies can choose the result, within what all clients "
    "together can send and what the noise may add."
)
"""What statements say under seals that hide contributions from everybody, those who would check them included."""


def largest_sum(clients: int, voters: int, bound: Bound, share_variance: Fraction) -> int:
    """What no entry of a sum of so many contributions exceeds, except with probability 2^-120 because of noise."""
    noise = reach(float(share_variance * clients)) if share_variance else 0
    return clients * voters * bound.largest + noise
