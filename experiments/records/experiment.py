"""How well records' votes choose: by the number of parts, by epsilon, by what is opened.

Beside every choice stand OPT, the default config, which nobody tuned, and the choice without privacy: one whole ballot
from each client, no noise, the winner of the soft ballots. What was measured is kept as rows, and not measured again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from experiments.ballots import Votes
from experiments.epsilons import DELTA
from experiments.records.kept import Kept, Row
from experiments.records.tasks import FEWEST, Case, accuracy, grid, losses, rows_of
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray
from hushtune.core.observer import Observer
from hushtune.methods.base import Facts
from hushtune.methods.vote.method import Vote
from hushtune.privacy.guarantee import Privacy
from hushtune.seals.base import Seal
from hushtune.seals.masked.seal import Masked
from hushtune.seals.quorum.seal import Quorum

USUAL = "usual"
SUM, WINNER, VOTES = "sum", "winner", "winner of votes"
ARMS: dict[str, tuple[Vote, Seal]] = {
    WINNER: (Vote(opens="winner", ballot="soft"), Quorum(nodes=3)),
    VOTES: (Vote(opens="winner", ballot="top"), Quorum(nodes=3)),
    SUM: (Vote(), Masked(0.0, 0.0)),
}
_WINNERS = 4  # draws of the noise where only the winner is opened, for each where sums are


@dataclass(frozen=True)
class Experiment:
    """What to compare.

    Args:
        federations: data, clients and split, with one voter each.
        voters: parts of each client; what `Vote` takes by itself is always there.
        epsilons: of the records' guarantee; `inf` for no noise.
        draws: of the noise, where sums are opened; four times as many where winners are.
        full_steps: whether parts take as many steps as all rows would; one or both.
        folder: where losses are kept.
        measured: where rows are kept.
        jobs: processes; None for one per core.
    """

    federations: Sequence[Case]
    voters: Sequence[int]
    epsilons: Sequence[float]
    draws: int
    full_steps: Sequence[bool]
    folder: Path
    measured: Path
    jobs: int | None = None


def rows(experiment: Experiment, observer: Observer) -> Iterator[Row]:
    """One row per federation, and one per federation, arm, number of voters and epsilon."""
    for federation in experiment.federations:
        known = _Federation(federation, experiment, observer)
        facts = known.facts()
        yield {**_named(federation), "arm": "federation", **facts}
        for full in experiment.full_steps:
            for arm in ARMS:
                for epsilon in experiment.epsilons:
                    for name, voters in _splits(arm, federation.clients, facts, epsilon, experiment.voters):
                        yield {
                            **_named(federation),
                            "arm": arm,
                            "steps": "all rows'" if full else "its own",
                            "voters": name,
                            "parts": voters,
                            "epsilon": epsilon if math.isfinite(epsilon) else "inf",
                            "accuracy": known.mean(arm, full, voters, epsilon),
                        }


def _named(case: Case) -> Row:
    return {"data": case.data, "clients": case.clients, "split": case.split, "seed": case.seed}


def _splits(arm: str, clients: int, known: Row, epsilon: float, voters: Sequence[int]) -> list[tuple[str, int]]:
    """Numbers of voters by name: those asked for whose parts have rows enough, and the usual one."""
    found = [(str(number), number) for number in voters if known["rows"] >= FEWEST * number]
    if math.isfinite(epsilon):
        vote, seal = ARMS[arm]
        facts = Facts(grid(), clients, _privacy(epsilon), seal, Search())
        found.append((USUAL, replace(vote, rows=known["stated rows"]).settled(facts).voters_each))
    return found


class _Federation:
    """One federation: what is kept of it, and its losses by the number of parts, once they are needed."""

    def __init__(self, case: Case, experiment: Experiment, observer: Observer) -> None:
        self._case, self._experiment, self._observer = case, experiment, observer
        self._kept = Kept(experiment.measured / f"{case.federation}.json")
        self._votes: dict[Case, Votes] = {}

    @cached_property
    def _accuracy(self) -> tuple[FloatArray, float]:
        return accuracy(self._case, self._experiment.folder)

    def facts(self) -> Row:
        """What a choice is held against."""

        def measured() -> Row:
            good, default = self._accuracy
            return {
                "opt": round(float(good.max()), 4),
                "default": round(default, 4),
                "random": round(float(good.mean()), 4),
                **rows_of(self._case),
            }

        return {**self._kept.facts(measured), "without privacy": self.mean(WINNER, True, 1, math.inf)}

    def mean(self, arm: str, full_steps: bool, voters: int, epsilon: float) -> float:
        """The mean accuracy of what is chosen."""
        wanted = {"arm": arm, "full_steps": full_steps or voters == 1, "parts": voters, "draws": self._draws(arm)}
        return self._kept.mean(
            {**wanted, "form": form_of(arm, self._case.clients, voters, epsilon)},
            f"{epsilon:g}",
            lambda: round(self._mean(arm, full_steps, voters, epsilon), 4),
        )

    def _mean(self, arm: str, full_steps: bool, voters: int, epsilon: float) -> float:
        case = replace(self._case, voters=voters, full_steps=full_steps or voters == 1)
        if case not in self._votes:
            found = losses(case, self._experiment.folder, self._experiment.jobs, self._observer)
            self._votes[case] = Votes(grid(), found, case.clients, self._accuracy[0], case.seed)
        vote, seal = ARMS[arm]
        vote, draws = replace(vote, voters=voters), self._draws(arm)
        return float(np.mean(self._votes[case].accuracies(vote, _privacy(epsilon), seal, draws)[1]))

    def _draws(self, arm: str) -> int:
        """Of the noise; smoothing a sum takes longest."""
        return self._experiment.draws * (1 if arm == SUM else _WINNERS)


def form_of(arm: str, clients: int, voters: int, epsilon: float) -> str:
    """What the ballots of an arm say, by the defaults of today: a mean that was kept is of this form only.

    Args:
        arm: one of `ARMS`.
        clients: how many.
        voters: of each.
        epsilon: of the guarantee; `inf` for none.
    """
    vote, seal = ARMS[arm]
    found = replace(vote, voters=voters).settled(Facts(grid(), clients, _privacy(epsilon), seal, Search()))
    known = {"k": found.k, "decode": found.decode, "width": found.width, "grades": found.grades}
    return ", ".join(f"{name}={value}" for name, value in known.items() if value is not None)


def _privacy(epsilon: float) -> Privacy | None:
    return Privacy(epsilon, DELTA, unit="record") if math.isfinite(epsilon) else None
