"""What all seals share: who must answer, and who is counted on for noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hushtune.checks import number
from hushtune.client import Id
from hushtune.errors import SettingError
from hushtune.privacy.skellam import IntArray


def floor_share(share: float, clients: int) -> int:
    """floor(share * clients) with the share as written: .3 of 10 is 3, though the float .3 is below 3/10."""
    return int(Fraction(str(share)) * clients)


@dataclass(frozen=True)
class Seal:
    """How contributions stay hidden, and how many may be missing or dishonest.

    Args:
        dropouts: share of clients that may fail to answer; the round aborts when more do.
        corrupt: share of clients that may collude or add no noise.
    """

    dropouts: float = 0.1
    corrupt: float = 0.1
    name: ClassVar[str]

    def __post_init__(self) -> None:
        for name in ("dropouts", "corrupt"):
            object.__setattr__(self, name, number(name, getattr(self, name), 0, 1, "[)"))

    def needed(self, clients: int) -> int:
        """The fewest answers that complete a round."""
        return clients - floor_share(self.dropouts, clients)

    def honest(self, clients: int) -> int:
        """The fewest honest answers in a completed round: these alone must carry the noise."""
        count = self.needed(clients) - floor_share(self.corrupt, clients)
        if count < 1:
            raise SettingError(
                f"`dropouts + corrupt < 1` must leave an honest client, but got dropouts={self.dropouts}, "
                f"corrupt={self.corrupt} with {clients} clients"
            )
        return count

    def to_json(self) -> dict[str, Any]:
        """Name and numbers."""
        return {"name": self.name, **asdict(self)}

    def protect(self, vector: IntArray) -> bytes:
        """A client's noisy vector as it leaves the client."""
        raise NotImplementedError

    def open(self, replies: Mapping[Id, bytes], length: int) -> tuple[IntArray, dict[Id, str]]:
        """The sum of the vectors that arrived, and for each client whose reply is no vector, why."""
        raise NotImplementedError
