"""Masked: secure aggregation. The server sees masked vectors and opens their sum, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hushtune.checks import integer
from hushtune.errors import SettingError
from hushtune.roster import Roster
from hushtune.seals import shamir
from hushtune.seals.base import Seal, floor_share
from hushtune.seals.graph import Shape, shape
from hushtune.seals.masked_server import MaskedServer
from hushtune.seals.masked_setting import ADVERT_BYTES, BOX_BYTES, SEALED_BYTES, SIGNATURE_BYTES, Setting


@dataclass(frozen=True)
class Masked(Seal):
    """Secure aggregation in the style of Bell et al. 2020 (SecAgg+), with a fresh set of keys for every sum.

    The server sees masked vectors and learns the sum of those who answered, at least clients - floor(dropouts clients),
    or nothing: with pinned identities even if it lies, together with floor(corrupt clients) clients; unpinned, if it
    follows the protocol and impersonates nobody. The failure bound is 2^-40 for each condition, over all clients
    together; the threat model has the proof. With epsilon every client adds a Skellam share to its own vector.

    Args:
        dropouts: share of clients that may fail to answer, at any stage, in [0, 1); more abort the round, and nothing
            is opened.
        corrupt: share of clients that may collude with the server, or add no noise, in [0, 1).
        neighbours: INSECURE unless None: a number of neighbours below what the failure bound of 2^-40 asks for, and no
            agreement on who answered, to compare costs with other systems.
    """

    neighbours: int | None = None
    name: ClassVar[str] = "masked"

    def shape(self, clients: int) -> Shape:
        """Degree and threshold; refused if no safe ones exist.

        Args:
            clients: how many are in the roster.
        """
        dropped, corrupt = floor_share(self.dropouts, clients), floor_share(self.corrupt, clients)
        if self.neighbours is None:
            return shape(clients, dropped, corrupt)
        degree = integer("neighbours", self.neighbours, 1, clients - 1)
        if degree * clients % 2:
            raise SettingError(f"neighbours times clients must be even, but got neighbours={degree}, clients={clients}")
        return Shape(clients, degree, degree // 2 + 1, clients - dropped, committee=0, quorum=0, gap=0)

    def check(self, clients: int) -> None:
        """Refuses parameters that cannot be met."""
        self.honest(clients)
        self.shape(clients)

    def traffic(self, clients: int, length: int, bits: int, request: int, pinned: bool) -> tuple[float, int]:
        """Computed from the sizes of all parts; `bench secure-sum` counts the real ones."""
        form = self.shape(clients)
        advert = ADVERT_BYTES + SIGNATURE_BYTES * pinned
        everybody, near = -(-clients // 8), form.degree * 4  # a set of clients as bits; a list of neighbours
        trips = {
            "keys": (request, advert),
            "shares": (near + form.degree * advert, near + (form.degree + form.own) * SEALED_BYTES),
            "input": (near + form.degree * BOX_BYTES + everybody + request, length * bits // 8),
            "unmask": (
                everybody + form.quorum * (4 + SIGNATURE_BYTES) * pinned,
                near + (form.degree + form.own) * shamir.SHARE_BYTES,
            ),
        }
        framing = 150  # headers and lengths of a message and its reply
        signing = form.committee / clients if pinned else 0.0
        total = sum(sum(sizes) + framing for sizes in trips.values()) + signing * (
            everybody + SIGNATURE_BYTES + framing
        )
        return 2 * (len(trips) + signing), round(total)

    def setting(self, run: str, roster: Roster, terms: str) -> Setting:
        """What both ends agree on.

        Args:
            run: its id.
            roster: its clients.
            terms: stands for the run's seal, privacy, noise and plan.
        """
        return Setting(run, roster, self.shape(len(roster)), terms)

    def session(self, run: str, roster: Roster, terms: str, first: int = 0) -> MaskedServer:
        """The server's end."""
        return MaskedServer(self.setting(run, roster, terms), first)
