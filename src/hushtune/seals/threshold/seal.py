"""Threshold: multiparty CKKS. The server computes on ciphertexts; all parties together open the outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hushtune.core.checks import number
from hushtune.core.errors import SettingError, WireError
from hushtune.core.roster import Roster
from hushtune.privacy.bounds import Bound
from hushtune.privacy.policy import Policy
from hushtune.seals.base import UNSEEN, Protected, Seal, floor_share
from hushtune.seals.ends import Due, Expected, Seat
from hushtune.seals.forms import Form
from hushtune.seals.threshold.circuits import PARAMETERS, Circuit, circuit, deviation_of
from hushtune.seals.threshold.client import Task, ThresholdClient
from hushtune.seals.threshold.environment import interpreter
from hushtune.seals.threshold.server import ThresholdServer
from hushtune.seals.threshold.wire import BEGINS, END, KIND


@dataclass(frozen=True)
class Threshold(Seal):
    """Multiparty CKKS (Mouchet et al. 2021) on OpenFHE: everybody's key shares are needed to open anything.

    What is opened can be computed first: a comparison or a quotient is opened, and not the sum it is of. Holds against
    a server that follows the protocol, alone or together with all parties but one.

    A server that breaks the protocol is NOT defended against, pinned identities or not: it can have a single client's
    ciphertext decrypted. Assumed: ring learning with errors at 128 bits; smudging by Li, Micciancio, Schultz, Sorrell
    2022. With epsilon every client adds a Skellam share before it encrypts, and the noisy sum is what is opened.

    Args:
        dropouts: must be 0: nothing can be opened without one of the parties.
        corrupt: share of clients that may add no noise, if epsilon is set.
        ring: the ring's dimension, 2^15 or 2^14. The smaller one is twice as fast and reaches fewer bits of `smudging`.
        smudging: the fewest bits (lambda), from 0 to 128, by which a party's noise must hide the error of what is
            opened, which depends on other parties' secrets; what is reached is in the result.
        precision: standard deviation that the parties' smudging leaves in opened quotients, which are between 0 and 1;
            from 1e-6 to 0.1.
    """

    dropouts: float = 0.0
    ring: int = 2**15
    smudging: float = 20.0
    precision: float = 8e-4
    name: ClassVar[str] = "threshold"
    brief: ClassVar[str] = "multiparty encryption: the server sees what is decrypted only"
    kind: ClassVar[str] = KIND
    shown: ClassVar[str] = "encrypted: "
    computes: ClassVar[bool] = True
    computing: ClassVar[str] = "computed under encryption"
    keeps_replies: ClassVar[bool] = True  # they are megabytes, and lie where the secret is

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dropouts:
            raise SettingError(f"seal 'threshold' needs every client: dropouts must be 0, but got {self.dropouts:g}")
        if isinstance(self.ring, bool) or self.ring not in PARAMETERS:
            raise SettingError(f"ring must be one of {sorted(PARAMETERS)}, but got {self.ring!r}")
        object.__setattr__(self, "smudging", number("smudging", self.smudging, 0, 128))
        object.__setattr__(self, "precision", number("precision", self.precision, 1e-6, 0.1))

    def check(self, clients: int) -> None:
        """Refuses a single client, and a machine without OpenFHE."""
        self.honest(clients)
        if clients < 2:
            raise SettingError(f"seal 'threshold' needs at least 2 clients, but got {clients}")
        interpreter()

    def circuit(self, form: Form | None, clients: int, largest: int, length: int) -> Circuit:
        """How a form is computed.

        Args:
            form: what is opened; None: the sum.
            clients: how many there are.
            largest: the largest absolute value of an entry of the sum.
            length: of what is opened.
        """
        found, what = circuit(PARAMETERS[self.ring], form, clients, largest), "the sum" if form is None else form.words
        if found is None:
            raise SettingError(
                f"{what} cannot be computed under encryption for {clients} clients with sums up to {largest} and ring "
                f"{self.ring}; let clients send fewer points, take the larger ring, or use seal=Masked()"
            )
        bits = self.bits(found, form, clients, length)
        if bits < self.smudging:
            raise SettingError(
                f"smudging must reach {self.smudging:g} bits, but {what} reaches {bits:.1f} with ring {self.ring} and "
                f"precision {self.precision:g}; lower it, take the larger ring, or let clients send fewer points"
            )
        return found

    def deviation(self, form: Form | None, clients: int) -> float:
        """Standard deviation of each party's smudging.

        Args:
            form: what is opened; None: the sum.
            clients: how many there are.
        """
        return deviation_of(form, clients, self.precision)

    def bits(self, found: Circuit, form: Form | None, clients: int, length: int) -> float:
        """lambda: by how many bits each party's smudging hides the error of what is opened.

        Args:
            found: how the form is computed.
            form: what is opened; None: the sum.
            clients: how many there are.
            length: of what is opened.
        """
        return found.smudging(self.deviation(form, clients), length, clients)

    def traffic(
        self, clients: int, bound: Bound, voters: int, largest: int, request: int, pinned: bool
    ) -> tuple[float, int]:
        """For one sum that is opened as it is: key share and joint key, a ciphertext of two moduli, a decryption."""
        parameters = PARAMETERS[self.ring]
        polynomial = 8 * parameters.ring
        key = polynomial * (parameters.depth + 1)  # without the common half
        pieces = -(-bound.length // parameters.slots)
        return 6, 2 * key + 2 * request + pieces * (4 + 4 + 2) * polynomial

    def claims(self, due: Due, clients: int) -> float:
        """lambda, which follows from the circuit."""
        return self._circuits(due.form, clients, due.largest, due.opens)[1]

    def _circuits(self, form: Form | None, clients: int, largest: int, length: int) -> tuple[Circuit, float]:
        """How a form is computed, and lambda as results state it."""
        found = self.circuit(form, clients, largest, length)
        return found, math.floor(10 * self.bits(found, form, clients, length)) / 10

    def agree(self, policy: Policy, due: Due, clients: int) -> None:
        """How little smudging a server may ask for is the client's to say."""
        found = self.circuit(due.form, clients, due.largest, due.opens)
        policy.check_smudging(self.bits(found, due.form, clients, due.opens))

    def protects(self, facts: Protected) -> list[str]:
        """All but what is opened, from a server that follows the protocol."""
        corrupt = max(1, floor_share(self.corrupt, facts.clients))
        noise = [f"  The noise, and so epsilon, allows for {corrupt} such clients only."] if facts.private else []
        return [
            "Seal 'threshold': a server that follows the protocol sees nothing but what is listed above, alone or "
            f"together with up to {facts.clients - 1} of the {facts.clients} clients, as long as ring learning with "
            "errors is hard (128 bits). What is opened has an error that depends on others' secrets; every client's "
            f"noise hides it with at least {facts.smudging:g} bits (lambda).",
            *noise,
            UNSEEN,
            "TRUSTED: the server, to follow the protocol. One that does not can have a single client's ciphertext "
            "decrypted instead of the sum; seal 'masked' with pinned identities holds against that.",
        ]

    @classmethod
    def expects(cls, header: Mapping[str, Any], parts: list[bytes], message: bytes) -> Expected:
        """Several trips, of which one carries the input and two carry the request."""
        trip = str(header.get("trip"))
        carries = trip in (BEGINS, "input")
        if carries and not parts:
            raise WireError(f"trip '{trip}' must carry the request")
        place = f"{header.get('round')} {trip} {header.get('turn')}"
        request = parts[-1] if carries else None
        return Expected(str(header.get("run")), place, request, trip == BEGINS, trip == "input", trip == END)

    def client(self, seat: Seat) -> ThresholdClient:
        """The client's end, which encrypts, and decrypts in part."""
        return ThresholdClient(seat, lambda due: self._task(due, len(seat.roster)))

    def _task(self, due: Due, clients: int) -> Task:
        found = self.circuit(due.form, clients, due.largest, due.opens)
        return Task(found, due.form, due.largest, self.deviation(due.form, clients))

    def server(
        self, run: str, roster: Roster, terms: str, first: int = 0, folder: Path | None = None
    ) -> ThresholdServer:
        """The server's end, which computes on ciphertexts."""
        return ThresholdServer(run, roster, self._circuits, first)
