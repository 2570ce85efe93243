"""What a comparison found: one row per combination of method, seal and guarantee."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hushtune._version import __version__
from hushtune.core.errors import SettingError
from hushtune.core.words import as_set, counted, up
from hushtune.privacy.guarantee import Privacy
from hushtune.run.disclosures import CHOSEN, OF_EACH, Disclosure
from hushtune.run.result import Result

SCHEMA = 1
EXACT = "exact"  # instead of an epsilon
FILE = "comparison.json"
ARMS = "arms"  # the folder of the runs' folders
SCORES = "scores.json"  # in each of them


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
        beside: scores of the configs that a result shows beside the chosen one, by name: what a prior alone chooses.
    """

    method: str
    seal: str
    privacy: Privacy | None
    result: Result | None = None
    scores: tuple[float, ...] = ()
    folder: str | None = None
    refused: str | None = None
    beside: Mapping[str, float] = field(default_factory=dict)

    @property
    def voters(self) -> int:
        """How many voters each client is."""
        return 1 if self.result is None else self.result.method.voters_each

    @property
    def guarantee(self) -> str:
        """Epsilon, or "exact"; and what else is not the default's."""
        if self.privacy is None:
            return EXACT
        each = f", {counted(self.voters, 'voter')} each" if self.privacy.unit == "record" and self.result else ""
        return f"{as_set(self.privacy.epsilon)}{self.terms}{each}"

    @property
    def terms(self) -> str:
        """Unit, relation and delta of the guarantee, as far as they are not the default's."""
        if self.privacy is None:
            return ""
        usual = Privacy(self.privacy.epsilon)
        own = (f" per {self.privacy.unit}", f" {self.privacy.neighbours}", f" delta {as_set(self.privacy.delta)}")
        names = ("unit", "neighbours", "delta")
        pairs = zip(names, own, strict=True)
        return "".join(words for name, words in pairs if getattr(self.privacy, name) != getattr(usual, name))

    @property
    def score(self) -> float | None:
        """The mean score over draws of the noise."""
        return float(np.mean(self.scores)) if self.scores else None

    @property
    def deviation(self) -> float | None:
        """The scores' standard deviation over draws of the noise; None with fewer than two."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else None

    @property
    def alone(self) -> tuple[str, ...]:
        """What would be chosen without asking anybody, in words: by a prior alone."""
        if self.result is None:
            return ()
        found = self.result.method.beside(self.result.candidates)
        return tuple(
            f"{name} chooses {json.dumps(config)}"
            + (f", which scores {self.beside[name]:.3f}" if name in self.beside else "")
            for name, config in found.items()
        )

    @property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """Who learned what, each once, but for the chosen config; clients are not listed by name."""
        found = self.result.disclosures if self.result is not None else []
        return tuple(_unnamed(d) for d in dict.fromkeys(found) if d != CHOSEN)

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
            "voters": self.voters,
            "score": self.score,
            "deviation": self.deviation,
            "spent": result.spent.epsilon if privacy is not None else None,
            "server sees": self.server_sees,
            "all see": self.all_see,
            **{name: (result.traffic or {}).get(name, 0) for name in ("trips", "messages", "bytes")},
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
        lines = _aligned([_HEADS, *(_cells(arm) for arm in self.ran)])
        if beside := dict.fromkeys(f"  {arm.method}: {words}" for arm in self.ran for words in arm.alone):
            lines += ["", "Without asking anybody:", *beside]
        lines += ["", "What everybody sees who reads the result:"]
        seen = dict.fromkeys(f"  {arm.method}, seal '{arm.seal}': {arm.all_see}" for arm in self.ran)
        lines += seen
        refused = [arm for arm in self.arms if arm.refused is not None]
        if refused:
            reasons: dict[str, list[str]] = {}
            for arm in refused:
                reasons.setdefault(arm.refused or "", []).append(f"{arm.method} {arm.seal} {arm.guarantee}")
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
                "beside": dict(arm.beside),
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

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Comparison:
        """The comparison kept in a folder.

        Args:
            folder: one that `hushtune compare` wrote, or that was given to `compare` as `folder`.
        """
        path = Path(folder) / FILE
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            if raw["schema"] != SCHEMA:
                raise SettingError(f"{path} must have schema {SCHEMA}, but got {raw['schema']!r}")
            arms = tuple(_arm(arm, path.parent) for arm in raw["arms"])
            reference = dict(zip(raw["reference"], checked_scores(raw["reference"].values()), strict=True))
            found = cls(arms, int(raw["simulation"]["seed"]), int(raw["simulation"]["draws"]), reference)
        except SettingError:
            raise
        except OSError as error:
            raise SettingError(f"{path} cannot be read: {error.strerror}; give `hushtune compare`'s folder") from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise SettingError(f"{path} must be written by `hushtune compare`, but it is damaged: {error}") from None
        if not found.ran:
            raise SettingError(f"{path} must hold at least one run, but got none")
        return found


def checked_scores(values: Iterable[Any]) -> list[float]:
    """Finite numbers, or a ValueError."""
    found = [float(value) for value in values]
    if not all(math.isfinite(value) and abs(value) < 1e12 for value in found):
        raise ValueError("scores must be finite numbers")
    return found


def _unnamed(disclosure: Disclosure) -> Disclosure:
    what, named, _ = disclosure.what.partition(OF_EACH)
    return replace(disclosure, what=f"{what}, of each client" if named else what)


def _arm(raw: dict[str, Any], folder: Path) -> Arm:
    privacy = Privacy(**raw["privacy"]) if raw["privacy"] is not None else None
    method, seal, scores = str(raw["method"]), str(raw["seal"]), tuple(checked_scores(raw["scores"]))
    if raw["refused"] is not None:
        return Arm(method, seal, privacy, refused=str(raw["refused"]))
    place = folder / ARMS / str(raw["folder"])
    if place.resolve() != folder.resolve() / ARMS / place.name:
        raise SettingError(f"{folder / FILE} must name folders below {ARMS}/, but got {raw['folder']!r}")
    told = raw.get("beside", {})
    beside = dict(zip(told, checked_scores(told.values()), strict=True))
    return Arm(method, seal, privacy, Result.load(place), scores, place.name, beside=beside)


_HEADS = ("method", "seal", "epsilon", "score", "spent", "messages", "bytes", "seconds", "the server also sees")


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Each row as a line, with columns as wide as they must be."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cells(arm: Arm) -> tuple[str, ...]:
    row = arm.row()
    score = "" if arm.score is None else f"{arm.score:.3f}"
    score += "" if arm.deviation is None else f" +- {arm.deviation:.3f}"
    return (
        arm.method,
        arm.seal,
        arm.guarantee,
        score,
        "" if arm.privacy is None else up(row["spent"], 3),
        f"{row['messages']:g}",
        f"{row['bytes']:,.0f}",
        f"{row['seconds']:.1f}",
        arm.server_sees,
    )
