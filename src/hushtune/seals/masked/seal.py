"""Masked: secure aggregation. The server sees masked vectors and opens their sum, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hushtune.core.checks import integer
from hushtune.core.errors import SettingError, WireError
from hushtune.core.roster import Roster
from hushtune.privacy.bounds import Bound
from hushtune.seals.base import UNSEEN, Protected, Seal, floor_share
from hushtune.seals.ends import Expected, Seat
from hushtune.seals.masked import shamir
from hushtune.seals.masked.client import MaskedClient
from hushtune.seals.masked.graph import Shape, shape
from hushtune.seals.masked.pact import ADVERT_BYTES, SIGNATURE_BYTES, TAGGED_BYTES, Pact, sum_bits
from hushtune.seals.masked.server import MaskedServer


@dataclass(frozen=True)
class Masked(Seal):
    """Secure aggregation in the style of Bell et al. 2020 (SecAgg+), with a fresh set of keys for every sum.

    The server sees masked vectors and learns the sum of those who answered, at least clients - floor(dropouts clients),
    or nothing: with pinned identities even if it lies, together with floor(corrupt clients) clients; unpinned, if it
    follows the protocol and impersonates nobody. The failure bound is 2^-40 for each condition of secrecy, over all
    clients together; the threat model has the proof. With epsilon every client adds a Skellam share to its own vector.

    Args:
        dropouts: share of clients that may fail to answer, at any stage, in [0, 1); more abort the round, and nothing
            is opened.
        corrupt: share of clients that may collude with the server, add no noise, or send wrong shares or none, in
            [0, 1). With fewer clients than 1 / corrupt one may still send wrong shares, unless dropouts leave no room.
        degree: INSECURE unless None: each client shares with so many others, fewer than the failure bound of 2^-40 asks
            for, and there is no agreement on who answered; to compare costs with other systems.
    """

    degree: int | None = None
    name: ClassVar[str] = "masked"
    brief: ClassVar[str] = "secure aggregation: the server sees the sum only"
    kind: ClassVar[str] = "masked"
    shown: ClassVar[str] = "secure sum: "
    hides: ClassVar[bool] = True

    def shape(self, clients: int) -> Shape:
        """Degree and threshold; refused if no safe ones exist.

        Args:
            clients: how many are in the roster.
        """
        dropped, corrupt = floor_share(self.dropouts, clients), floor_share(self.corrupt, clients)
        if self.degree is None:
            return shape(clients, dropped, corrupt)
        degree = integer("degree", self.degree, 1, clients - 1)
        if degree * clients % 2:
            raise SettingError(f"degree times clients must be even, but got degree={degree}, clients={clients}")
        return Shape(clients, degree, degree // 2 + 1, clients - dropped, committee=0, quorum=0, gap=0)

    def check(self, clients: int) -> None:
        """Refuses parameters that cannot be met."""
        self.honest(clients)
        self.shape(clients)

    def traffic(
        self, clients: int, bound: Bound, voters: int, largest: int, request: int, pinned: bool
    ) -> tuple[float, int]:
        """Computed from the sizes of all parts; the benchmark `secure-sum` counts the real ones."""
        graph = self.shape(clients)
        advert = ADVERT_BYTES + SIGNATURE_BYTES * pinned
        everybody, near = -(-clients // 8), graph.degree * 4  # a set of clients as bits; a list of peers
        trips = {
            "keys": (request, advert),
            "shares": (near + graph.degree * advert, near + (graph.degree + graph.own) * TAGGED_BYTES),
            "input": (near + graph.degree * TAGGED_BYTES + everybody + request, bound.length * sum_bits(largest) // 8),
            "unmask": (
                everybody + graph.quorum * (4 + SIGNATURE_BYTES) * pinned,
                near + (graph.degree + graph.own) * shamir.SHARE_BYTES,
            ),
        }
        framing = 150  # headers and lengths of a message and its reply
        signing = graph.committee / clients if pinned else 0.0
        total = sum(sum(sizes) + framing for sizes in trips.values()) + signing * (
            everybody + SIGNATURE_BYTES + framing
        )
        return 2 * (len(trips) + signing), round(total)

    def pact(self, run: str, roster: Roster, terms: str) -> Pact:
        """What both ends agree on.

        Args:
            run: its id.
            roster: its clients.
            terms: stands for the run's seal, privacy, noise and events.
        """
        return Pact(run, roster, self.shape(len(roster)), terms)

    @property
    def insecure(self) -> str | None:
        """A lower degree than is safe."""
        if self.degree is None:
            return None
        return f"degree={self.degree}: the failure bound is not met, and a lying server not found out"

    def protects(self, facts: Protected) -> list[str]:
        """Single contributions, from the server."""
        corrupt = floor_share(self.corrupt, facts.clients)
        agreed = facts.pinned and self.insecure is None
        server = "the server, even if it lies," if agreed else "a server that follows the protocol"
        lines = [
            f"Seal 'masked': {server} sees no single contribution but their sum, alone or together with up to "
            f"{corrupt} of the {facts.clients} clients (failure bound 2^-40 for each condition of the threat model)."
        ]
        if not corrupt:
            noisy = ", with all of the noise that epsilon needs" if facts.private else ""
            lines.append(
                "  With so few clients none is taken to be corrupt: one that tells the server what it sent leaves it "
                f"the sum of the others{noisy}."
            )
        lines.append(UNSEEN)
        if self.insecure is not None:
            lines.append(f"INSECURE SETTING, {self.insecure}.")
        if not facts.pinned:
            lines.append(
                "INSECURE SETTING, identities not pinned: the server is trusted not to impersonate or invent clients, "
                "and not to lie about who dropped out."
            )
        return lines

    @classmethod
    def expects(cls, header: Mapping[str, Any], parts: list[bytes], message: bytes) -> Expected:
        """Several trips, of which one carries the input and two carry the request."""
        trip = str(header.get("trip"))
        carries = trip in ("keys", "input")
        if carries and not parts:
            raise WireError(f"trip '{trip}' must carry the request")
        place = f"{header.get('round')} {trip}"
        request = parts[-1] if carries else None
        return Expected(str(header.get("run")), place, request, begins=trip == "keys", input=trip == "input")

    def client(self, seat: Seat) -> MaskedClient:
        """The client's end, which masks what it sends."""
        return MaskedClient(self.pact(seat.run, seat.roster, seat.terms), seat)

    def server(self, run: str, roster: Roster, terms: str, first: int = 0, folder: Path | None = None) -> MaskedServer:
        """The server's end, which learns sums only."""
        return MaskedServer(self.pact(run, roster, terms), first)
