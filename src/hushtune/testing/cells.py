"""Every method x seal x noise is a cell: it passes the same checks as all others, or is refused in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from hushtune.client.search.base import Search
from hushtune.core.errors import MissingExtraError, SettingError, described
from hushtune.core.space import Domain
from hushtune.methods.base import Method
from hushtune.privacy.guarantee import Privacy
from hushtune.seals.base import Seal
from hushtune.seals.clear import Clear
from hushtune.seals.curator import Curator
from hushtune.seals.masked.seal import Masked
from hushtune.seals.quorum.seal import Quorum
from hushtune.seals.threshold.seal import Threshold
from hushtune.testing.noise import measured
from hushtune.testing.room import Room
from hushtune.testing.toys import SPACE
from hushtune.testing.values import expect

Noises = Literal["exact", "client", "record"]
State = Literal["works", "refused", "missing"]
CLIENTS = 6
MANY = 10  # for the measurement of noise: so many that `dropouts` and `corrupt` make a difference to it
FEW = 2  # under seal 'threshold', where every one of them is a process that makes keys
NOISES: dict[Noises, Privacy | None] = {
    "exact": None,
    "client": Privacy(4.0),
    "record": Privacy(4.0, unit="record"),
}
SEALS: tuple[Seal, ...] = (Clear(), Masked(), Quorum(nodes=3), Threshold(ring=2**14, smudging=8.0), Curator())


@dataclass(frozen=True)
class Outcome:
    """What a cell turned out to be.

    Args:
        state: "works": all checks were passed; "refused": `tune` refused the combination before anything was written
            or spent; "missing": it could not be tried, because an optional dependency is not installed.
        reason: of a refusal, in one line.
        opened: what a working cell opened, in words.
    """

    state: State
    reason: str = ""
    opened: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.state + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class Cell:
    """A method under one seal and one noise.

    Args:
        method: with settings that make it cheap.
        seal: how contributions stay hidden.
        privacy: the guarantee; None: exact values are opened.
        domain: what is tuned: candidates, or a space.
        search: how clients fill their trials; None: the method's own default.
    """

    method: Method
    seal: Seal
    privacy: Privacy | None
    domain: Domain
    search: Search | None

    @property
    def noise(self) -> Noises:
        """Whose contribution noise hides: "exact", nobody's; a "client"'s; a "record"'s."""
        return "exact" if self.privacy is None else self.privacy.unit

    @property
    def clients(self) -> int:
        """How many there are."""
        return FEW if self._keyed else CLIENTS

    @property
    def _keyed(self) -> bool:
        """Whether every client makes keys in a process of its own, as it does where none but they compute."""
        return self.seal.computes and not self.seal.served_by

    def __str__(self) -> str:
        return f"{self.method.name} {self.seal.name} {self.noise}"

    def check(self) -> Outcome:
        """Runs the cell with a made-up federation, in a folder of its own; an AssertionError says what broke."""
        with TemporaryDirectory(prefix="hushtune-") as place:
            room = Room(Path(place), self.settings(), self.clients)
            try:
                room.begin()
            except MissingExtraError as error:
                return self._refused("missing", error, room)
            except SettingError as error:
                return self._refused("refused", error, room)
            except Exception as error:
                raise AssertionError(f"{self}: neither a result nor a refusal: {described(error)}") from error
            try:
                room.check()
                if self.privacy is not None:
                    measured(self.seal, self.privacy.unit, FEW if self._keyed else MANY)
            except AssertionError as error:
                raise AssertionError(f"{self}: {error}") from error
            except Exception as error:
                raise AssertionError(f"{self}: a check could not be made: {described(error)}") from error
            return Outcome("works", opened=room.opened())

    def settings(self) -> dict[str, Any]:
        """The cell as arguments of `tune`."""
        given = {"candidates": self.domain, "method": self.method, "seal": self.seal}
        return {**given, "privacy": self.privacy, "search": self.search}

    def _refused(self, state: State, error: Exception, room: Room) -> Outcome:
        """A refusal is one line, and costs nothing."""
        reason = str(error)
        expect(len(reason.splitlines()) == 1, f"{self}: a refusal must be one line, but got {reason!r}")
        expect(
            not room.left_behind(), f"{self}: refused ({reason}), but only after it had written {room.left_behind()}"
        )
        return Outcome(state, reason)


def cells(
    method: Method,
    domain: Domain | None = None,
    search: Search | None = Search(),  # noqa: B008 (a frozen value)
    seals: Sequence[Seal] = SEALS,
) -> list[Cell]:
    """All cells of a method: every seal with every noise.

    Args:
        method: with settings that make it cheap: few iterations, few features. For noise per record its clients are
            split in two, if it has a field `voters`.
        domain: candidates, or a space. Default: 6 candidates with one knob.
        search: how clients fill their trials. Default: by scoring the candidates; None: as the method does.
        seals: Default: all.
    """
    split = replace(method, voters=2) if "voters" in [field.name for field in fields(method)] else method  # type: ignore[arg-type, type-var]
    return [
        Cell(split if noise == "record" else method, seal, privacy, domain or SPACE.grid(x=6), search)
        for seal in seals
        for noise, privacy in NOISES.items()
    ]
