"""What all seals share: who must answer, and who is counted on for noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol

from hushtune.bounds import Bound
from hushtune.checks import number
from hushtune.errors import SettingError
from hushtune.privacy.noise import Noise, Place
from hushtune.privacy.skellam import IntArray, reach
from hushtune.roster import Id, Roster

Exchange = Callable[[str, Mapping[Id, bytes]], Mapping[Id, Any]]
"""One trip: its name and a message for each client, to what came back (bytes, or something with a `reason`)."""


Reserve = Callable[[], None]
"""Reserves the run's cost, or raises; until then nothing is spent."""


def floor_share(share: float, clients: int) -> int:
    """floor(share * clients) with the share as written: .3 of 10 is 3, though the float .3 is below 3/10."""
    return int(Fraction(str(share)) * clients)


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
    computes: ClassVar[bool] = False  # whether it can compute a form of a sum before anything is opened
    noise_at: ClassVar[Place] = "parties"  # who adds the noise

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
        """Name and numbers."""
        return {"name": self.name, **asdict(self)}

    def check(self, clients: int) -> None:
        """Refuses numbers that cannot be met with so many clients.

        Args:
            clients: how many are in the roster.
        """
        self.honest(clients)

    def traffic(self, clients: int, length: int, bits: int, request: int, pinned: bool) -> tuple[float, int]:
        """Messages and bytes, both ways, of an average client in a run with one sum, nobody dropping out.

        Args:
            clients: in the roster.
            length: of the vectors.
            bits: of the sum.
            request: the request's bytes.
            pinned: whether identities are pinned.
        """
        raise SettingError(f"seal '{self.name}' does not say what it sends")

    def session(self, run: str, roster: Roster, terms: str, first: int = 0) -> Any:
        """The server's end, for all sums of one run that are opened without an interruption.

        Args:
            run: the run's id.
            roster: its clients.
            terms: as in `Request.terms`.
            first: larger than any round of the run's earlier sessions.
        """
        raise SettingError(f"seal '{self.name}' has no server's end")


class Summed(NamedTuple):
    """One opened sum.

    Args:
        total: the sum.
        missing: the clients that are not in it, and why.
        late: clients that are in it, but could not be reached afterwards, and why.
    """

    total: IntArray
    missing: dict[Id, str]
    late: dict[Id, str]


class Session(Protocol):
    """The server's end of a seal in one run."""

    def sum(self, request: bytes, length: int, bits: int, exchange: Exchange, last: bool, reserve: Reserve) -> Summed:
        """The sum of the vectors of all clients who answered.

        Args:
            request: the request's bytes, the same for all clients.
            length: of the vectors.
            bits: in which the sum lives: 32 or 64.
            exchange: the transport.
            last: whether this is the run's last sum.
            reserve: called once, right before clients are asked for inputs.
        """
        ...


def largest_sum(clients: int, voters: int, bound: Bound, share_variance: Fraction) -> int:
    """What no entry of a sum of so many contributions exceeds, except with probability 2^-120 because of noise."""
    noise = reach(float(share_variance * clients)) if share_variance else 0
    return clients * voters * bound.largest + noise


def sum_bits(clients: int, voters: int, bound: Bound, share_variance: Fraction) -> int:
    """Bits in which such a sum does not wrap: 32, or 64."""
    return 32 if largest_sum(clients, voters, bound, share_variance) < 2**31 else 64
