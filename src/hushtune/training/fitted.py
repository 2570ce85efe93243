"""What `fit` gives back: a model and its config, what both together cost, and what that revealed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hushtune.core.files import replace as write
from hushtune.core.space import Config
from hushtune.core.words import as_set, up
from hushtune.privacy.accounting import Budget, epsilon_of
from hushtune.privacy.events.answers import PureTests
from hushtune.privacy.events.registry import event_to_json
from hushtune.privacy.events.sums import Event, GaussianVector
from hushtune.privacy.events.training import SelectedRuns, TrainingSteps
from hushtune.privacy.guarantee import Privacy
from hushtune.run.result import LedgerNote, Result
from hushtune.run.statement import RELATIONS, books

_SCORED = {
    "none": "Nothing was scored.",
    "own": "Scored on: rows of each part's own, which the guarantee covers.",
    "public": "Scored on: rows that were declared PUBLIC. The guarantee does not cover them.",
    "protected": "Scored on: rows apart from those trained on; the guarantee covers them too.",
}
_COUNTED = "how many rows there are to train on: that number is PUBLIC, as rate and steps follow from it"
_UNCOUNTED = "the PUBLIC number of rows, {rows}, that rate and steps follow from; it was given, and not counted"
_SCORED_COUNT = "how many rows are scored on: that number is PUBLIC"
_NOT_COVERED = (
    "what was computed from the rows beforehand (a scaler, a feature selection)",
    "anything a user's own code prints or stores",
)
_SECRET = (
    "how many runs there were: it is written nowhere, but whoever sees how long the computation took can guess it, "
    "and the guarantee does not hold against them"
)


@dataclass
class Fitted:
    """A model and its config, what both together cost, and what was revealed.

    Args:
        config: what the model was trained with.
        index: its place among the candidates.
        model: the trained network, in evaluation mode.
        method: how the config was chosen: name and settings.
        trainer: DP-SGD's public settings.
        privacy: the guarantee asked for: unit "record", neighbours "add-remove".
        events: those of choice and training; epsilon is computed from these.
        spent: (epsilon, delta) of model and config together, under `rule`.
        rule: how epsilon is computed from events: the ledger's rule.
        scored_on: "own" rows of each part, "public" rows, "protected" rows apart from those trained on, or "none".
        secure: whether DP-SGD's noise came from a cryptographic generator.
        seed: of a marked simulation; None: a real run.
        run: its id.
        ledger: the owner's ledger before and after; None for a simulation.
        weights: of the model, as `torch.load` reads them.
        tuning: the result of the choice, if a curator's tests made it.
    """

    config: Config
    index: int | None
    model: Any = field(repr=False)
    method: dict[str, Any]
    trainer: dict[str, Any]
    privacy: Privacy
    events: tuple[Event, ...]
    spent: Budget
    rule: dict[str, Any]
    scored_on: str
    secure: bool
    seed: int | None
    run: str
    ledger: LedgerNote | None
    weights: bytes = field(default=b"", repr=False)
    tuning: Result | None = field(default=None, repr=False)

    @property
    def statement(self) -> str:
        """In plain words: what was revealed, and what is not covered."""
        return "\n".join([*_heading(self), *_guarantee(self), *_trust(self), *_rest(self)])

    def to_json(self) -> dict[str, Any]:
        """Everything but the model, as plain values. There are no timings: they would tell how many runs there were."""
        return {
            "config": self.config,
            "index": self.index,
            "method": self.method,
            "trainer": self.trainer,
            "privacy": self.privacy.to_json(),
            "events": [event_to_json(event) for event in self.events],
            "spent": asdict(self.spent),
            "rule": self.rule,
            "scored_on": self.scored_on,
            "secure": self.secure,
            "simulation": None if self.seed is None else {"seed": self.seed},
            "run": self.run,
            "ledger": asdict(self.ledger) if self.ledger is not None else None,
            "statement": self.statement,
        }

    def save(self, folder: str | Path) -> None:
        """Writes model.pt (the weights), statement.txt and, last, fitted.json.

        What else the run kept in the folder is removed, and no file's date says how long the run took.

        Args:
            folder: made if it is not there.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        write(place / "model.pt", self.weights)
        write(place / "statement.txt", self.statement + "\n")
        write(place / "fitted.json", json.dumps(self.to_json(), indent=2) + "\n")
        for name in ("run.json", "run.lock"):
            (place / name).unlink(missing_ok=True)


def _heading(fitted: Fitted) -> list[str]:
    lines = []
    if fitted.seed is not None:
        lines.append(
            "SIMULATION: noise and choices come from a seed, and no ledger was charged. What follows is what a real "
            "run with these settings would guarantee."
        )
    return [
        *lines,
        f"Method {fitted.method['name']} chose a config, and a model trained with it is published beside it.",
    ]


def _guarantee(fitted: Fitted) -> list[str]:
    privacy, delta = fitted.privacy, fitted.privacy.delta
    relation = RELATIONS[privacy.neighbours].format(unit=privacy.unit)
    lines = [
        f"Guarantee, for model and config together: ({up(fitted.spent.epsilon)}, {up(fitted.spent.delta)})-"
        f"differential privacy for each {privacy.unit}, neighbours '{privacy.neighbours}': {relation}.",
        f"  Asked for: epsilon {as_set(privacy.epsilon)}, delta {as_set(delta)}. Computed from the recorded events "
        f"under rule '{fitted.rule['name']}'.",
    ]
    for event in fitted.events:
        if isinstance(event, TrainingSteps):
            lines.append(f"  Training: {event.words}; alone epsilon {up(epsilon_of((event,), delta))}.")
        elif isinstance(event, SelectedRuns):
            lines.append(f"  Training: {event.words}.")
        elif isinstance(event, PureTests):
            tests = f"{event.times} test{'s' * (event.times > 1)} of epsilon {up(event.epsilon)}"
            lines.append(f"  Choosing: at most {tests}; alone epsilon {up(epsilon_of((event,), delta))}.")
    scored = [event for event in fitted.events if isinstance(event, GaussianVector)]
    if scored:
        lines.append(
            f"  Scoring: {len(scored)} counts of right answers, each with noise of standard deviation "
            f"{scored[0].deviation:.4g}; alone epsilon {up(epsilon_of(tuple(scored), delta))}."
        )
    return [*lines, f"  {_SCORED[fitted.scored_on]}"]


def _trust(fitted: Fitted) -> list[str]:
    lines = ["TRUSTED: the owner of the rows, who computes all this and sees everything."]
    if not fitted.secure:
        lines.append(
            "  The noise of DP-SGD comes from PyTorch's generator, whose state was drawn from the system's "
            "cryptographic source. It is NOT a cryptographic generator: install torchcsprng for one."
        )
    return lines


def _rest(fitted: Fitted) -> list[str]:
    lines = books(fitted.ledger, "The owner's ledger") if fitted.ledger is not None else []
    secret = (_SECRET,) if any(isinstance(event, SelectedRuns) for event in fitted.events) else ()
    return [*lines, f"Not covered: {'; '.join((*secret, *_public_counts(fitted), *_NOT_COVERED))}."]


def _public_counts(fitted: Fitted) -> tuple[str, ...]:
    """Numbers of rows that everybody may know, and so the guarantee cannot hide."""
    rows = fitted.trainer.get("rows")
    trained = _COUNTED if rows is None else _UNCOUNTED.format(rows=rows)
    return (trained, _SCORED_COUNT) if fitted.scored_on == "protected" and fitted.tuning is not None else (trained,)
