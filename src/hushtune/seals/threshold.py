"""Threshold: multiparty CKKS. The server computes on ciphertexts; all parties together open the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hushtune.checks import number
from hushtune.errors import SettingError
from hushtune.forms import Form
from hushtune.mhe.circuits import PARAMETERS, Circuit, circuit, deviation_of, trips_of
from hushtune.mhe.environment import interpreter
from hushtune.roster import Roster
from hushtune.seals.base import Seal
from hushtune.seals.threshold_server import ThresholdServer


@dataclass(frozen=True)
class Threshold(Seal):
    """Multiparty CKKS (Mouchet et al. 2021) on OpenFHE: everybody's key shares are needed to open anything.

    What is opened can be computed first: a comparison or a quotient is opened, and not the sum it is of. Holds against
    a server that follows the protocol, alone or together with all parties but one.

    Args:
        dropouts: must be 0: nothing can be opened without one of the parties.
        corrupt: share of clients that may add no noise, if epsilon is set.
        ring: the ring's dimension, 2^14 or 2^15. Default: the smallest that reaches `smudging` with the fewest trips.
        smudging: the fewest bits (lambda) by which a party's noise must hide the error of what is opened, which depends
            on other parties' secrets; what is reached is in the result.
        precision: standard deviation that the parties' smudging leaves in opened quotients, which are between 0 and 1.
    """

    dropouts: float = 0.0
    ring: int | None = None
    smudging: float = 12.0
    precision: float = 5e-4
    name: ClassVar[str] = "threshold"
    computes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dropouts:
            raise SettingError(f"seal 'threshold' needs every client: dropouts must be 0, but got {self.dropouts:g}")
        if self.ring is not None and (isinstance(self.ring, bool) or self.ring not in PARAMETERS):
            raise SettingError(f"ring must be one of {sorted(PARAMETERS)}, but got {self.ring!r}")
        object.__setattr__(self, "smudging", number("smudging", self.smudging, 0, 128))
        object.__setattr__(self, "precision", number("precision", self.precision, 1e-6, 0.1))

    def check(self, clients: int) -> None:
        """Refuses a single client, and a machine without OpenFHE."""
        self.honest(clients)
        if clients < 2:
            raise SettingError(f"seal 'threshold' needs at least 2 clients, but got {clients}")
        interpreter()

    def circuit(self, form: Form | None, clients: int, largest: int) -> Circuit:
        """How a form is computed, and with which ring.

        Args:
            form: what is opened; None: the sum.
            clients: how many there are.
            largest: the largest absolute value of an entry of the sum.
        """
        rings = sorted(PARAMETERS) if self.ring is None else [self.ring]
        possible = [found for ring in rings if (found := circuit(PARAMETERS[ring], form, clients, largest)) is not None]
        reached = []
        for found in sorted(possible, key=trips_of):  # a trip takes longer than a larger ring
            bits = self.bits(found, form, clients)
            if bits >= self.smudging:
                return found
            reached.append(f"{bits:.1f} with ring {found.parameters.ring}")
        what = "the sum" if form is None else form.words
        if reached:
            raise SettingError(
                f"smudging must reach {self.smudging:g} bits, but {what} reaches {', '.join(reached)}; lower it, give "
                "another ring, or let clients send fewer points"
            )
        raise SettingError(
            f"{what} cannot be computed under encryption for {clients} clients with sums up to {largest}"
            + (f" and ring {self.ring}" if self.ring is not None else "")
            + "; let clients send fewer points, or use seal=Masked()"
        )

    def deviation(self, form: Form | None, clients: int) -> float:
        """Of each party's smudging."""
        return deviation_of(form, clients, self.precision)

    def bits(self, found: Circuit, form: Form | None, clients: int) -> float:
        """lambda."""
        return found.smudging(self.deviation(form, clients))

    def traffic(self, clients: int, length: int, bits: int, request: int, pinned: bool) -> tuple[float, int]:
        """For one sum that is opened as it is: keys, one ciphertext of two moduli, one partial decryption."""
        parameters = PARAMETERS[self.ring or min(PARAMETERS)]
        polynomial = 8 * parameters.ring
        keys = 2 * polynomial * (parameters.depth + 1)
        pieces = -(-length // parameters.slots)
        return 6, 3 * keys + 2 * request + pieces * (4 + 4 + 2) * polynomial

    def session(self, run: str, roster: Roster, terms: str, first: int = 0) -> ThresholdServer:
        """The server's end."""
        return ThresholdServer(run, roster, self.circuit, first)
