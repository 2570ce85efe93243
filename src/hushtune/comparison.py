"""What a comparison found: one row per combination of method, seal and guarantee."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushtune._version import __version__
from hushtune.disclosures import CHOICE, OF_EACH, Disclosure
from hushtune.errors import SettingError
from hushtune.files import replace as written
from hushtune.privacy.guarantee import Privacy
from hushtune.result import Result

SCHEMA = 1
FILE = "comparison.json"
ARMS = "arms"  # the folder of the runs' folders


@dataclass(frozen=True)
class Arm:
    """One combination.

    Args:
        method: its name, with the settings that are not the default's.
        seal: its name.
        privacy: the guarantee asked for; None: exact values were opened.
        result: of the run through the whole protocol; None if it was refused.
        scores: of the configs chosen over draws of the noise, on the simulation's reference.
        folder: of the run, if one was kept.
        refused: why there is no result.
    """

    method: str
    seal: str
    privacy: Privacy | None
    result: Result | None = None
    scores: tuple[float, ...] = ()
    folder: str | None = None
    refused: str | None = None

    @property
    def score(self) -> float | None:
        """The mean score over draws of the noise."""
        return float(np.mean(self.scores)) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """The scores' standard deviation over draws of the noise; None with fewer than two."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else None

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Who learned what, each once, but for the choice itself; clients are not listed by name."""
        found = self.result.disclosures if self.result is not None else []
        return tuple(_unnamed(d) for d in dict.fromkeys(found) if d != CHOICE)

    @property
    def server_sees(self) -> str:
        """What the server sees and others do not."""
        own = [f"{d.what} ({d.mechanism.partition(': ')[2]})" for d in self.disclosures if d.to == "server"]
        return "; ".join(own) or "nothing more"

    @property
    def all_see(self) -> str:
        """What everybody sees who reads the result."""
        return "; ".join(dict.fromkeys(d.what for d in self.disclosures if d.to != "server"))

    def row(self) -> dict[str, Any]:
        """Flat, for tables. `seconds` are those of the whole run but for scoring; traffic is an average client's."""
        privacy, result = self.privacy, self.result
        told: dict[str, Any] = {
            "method": self.method,
            "seal": self.seal,
            "epsilon": privacy.epsilon if privacy is not None else None,
            "delta": privacy.delta if privacy is not None else None,
            "unit": privacy.unit if privacy is not None else None,
            "neighbours": privacy.neighbours if privacy is not None else None,
            "refused": self.refused,
        }
        if result is None:
            return told
        return {
            **told,
            "config": result.config,
            "score": self.score,
            "deviation": self.deviation,
            "spent": result.spent.epsilon if privacy is not None else None,
            "server sees": self.server_sees,
            "all see": self.all_see,
            **(result.traffic or {}),
            "seconds": sum(round(value, 3) for name, value in result.seconds.items() if name != "score"),
        }


@dataclass(frozen=True)
class Comparison:
    """All arms, in the order of methods, seals and guarantees.

    Args:
        arms: one per combination, those refused included.
        seed: of the simulation.
        draws: of the noise, over which scores are averaged.
        reference: `opt`, the best candidate's score, and `random_guess`, the mean candidate's, if they are the same for
            all arms and there is a reference.
    """

    arms: tuple[Arm, ...]
    seed: int
    draws: int
    reference: dict[str, float]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary per arm."""
        return [arm.row() for arm in self.arms]

    @property
    def ran(self) -> list[Arm]:
        """The arms that were not refused."""
        return [arm for arm in self.arms if arm.result is not None]

    def table(self) -> str:
        """As text: a line per arm, then what is opened by each method, then what was refused and why."""
        lines = [_line(_HEADS), *(_line(_cells(arm)) for arm in self.ran)]
        lines += ["", "What everybody sees who reads the result:"]
        seen = dict.fromkeys(f"  {arm.method}, seal '{arm.seal}': {arm.all_see}" for arm in self.ran)
        lines += seen
        refused = [arm for arm in self.arms if arm.refused is not None]
        if refused:
            reasons: dict[str, list[str]] = {}
            for arm in refused:
                reasons.setdefault(arm.refused or "", []).append(f"{arm.method} {arm.seal} {_epsilon(arm)}")
            lines += ["", "Refused:", *(f"  {', '.join(arms)}: {reason}" for reason, arms in reasons.items())]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The content of comparison.json; results are in the arms' own folders."""
        arms = [
            {
                "method": arm.method,
                "seal": arm.seal,
                "privacy": arm.privacy.to_json() if arm.privacy is not None else None,
                "scores": list(arm.scores),
                "folder": arm.folder,
                "refused": arm.refused,
            }
            for arm in self.arms
        ]
        return {
            "schema": SCHEMA,
            "hushtune": __version__,
            "simulation": {"seed": self.seed, "draws": self.draws},
            "reference": self.reference,
            "arms": arms,
            "rows": self.rows,
        }

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes comparison.json.

        Args:
            folder: made if it is not there.
        """
        path = Path(folder) / FILE
        written(path, json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n")
        return path

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Comparison:
        """The comparison kept in a folder.

        Args:
            folder: one that `save` wrote into, or that was given to `compare` as `folder`.
        """
        path = Path(folder) / FILE
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw["schema"] != SCHEMA:
                raise SettingError(f"{path} must have schema {SCHEMA}, but got {raw['schema']!r}")
            arms = tuple(_arm(arm, path.parent / ARMS) for arm in raw["arms"])
            return cls(arms, raw["simulation"]["seed"], raw["simulation"]["draws"], raw["reference"])
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror}; give `hushtune compare`'s folder") from None
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(f"{path} must be written by `hushtune compare`, but it is damaged: {error}") from None


def _unnamed(disclosure: Disclosure) -> Disclosure:
    what, named, _ = disclosure.what.partition(OF_EACH)
    return replace(disclosure, what=f"{what}, of each client" if named else what)


def _arm(raw: dict[str, Any], runs: Path) -> Arm:
    privacy = Privacy(**raw["privacy"]) if raw["privacy"] is not None else None
    result = Result.load(runs / raw["folder"]) if raw["refused"] is None else None
    return Arm(raw["method"], raw["seal"], privacy, result, tuple(raw["scores"]), raw["folder"], raw["refused"])


_WIDTHS = (34, 10, 8, 16, 8, 9, 12, 9, 0)
_HEADS = ("method", "seal", "epsilon", "score", "spent", "messages", "bytes", "seconds", "the server also sees")


def _line(cells: tuple[str, ...]) -> str:
    return "".join(f"{cell:{width}}  " if width else cell for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def _epsilon(arm: Arm) -> str:
    return "exact" if arm.privacy is None else f"{arm.privacy.epsilon:g}"


def _cells(arm: Arm) -> tuple[str, ...]:
    row = arm.row()
    score = "" if arm.score is None else f"{arm.score:.3f}"
    score += "" if arm.deviation is None else f" +- {arm.deviation:.3f}"
    return (
        arm.method,
        arm.seal,
        _epsilon(arm),
        score,
        "" if arm.privacy is None else f"{row['spent']:.3g}",
        f"{row['messages']:g}",
        f"{row['bytes']:,.0f}",
        f"{row['seconds']:.1f}",
        arm.server_sees,
    )
