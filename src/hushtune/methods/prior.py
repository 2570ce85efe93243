"""A public prior: what one believes of the candidates before anybody is asked, from PUBLIC data or from experience.

It enters as so many voters. Where only a winner is opened, these voters' scores are added to the sums that stay hidden;
where a noisy sum is opened, it is smoothed towards them. Either way it costs no privacy, because it depends on no
client's data. Nobody but its giver can check that: the statement names it, and says that it must be public.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.core.checks import number
from hushtune.core.codec import reads
from hushtune.core.errors import SettingError
from hushtune.core.files import replace as write
from hushtune.core.space import Candidates, Choice, Config, Space, Value, config_key
from hushtune.core.words import counted

FILE_KIND = "hushtune prior 1"
_VOTERS = 30.0
_MOST_VOTERS = 1e6
_MOST_TRIALS = 100_000
_MOST_PAIRS = 20_000_000  # of a trial and a candidate, whose distance is taken
_MOST_SOURCE = 300  # characters
_PREFERRED, _FEWEST_PREFERRED = 0.3, 3  # of the candidates
_UNNAMED = "a source that was not named"
_MOST_BYTES = 2**26


@dataclass(frozen=True)
class _Shares:
    """How much of a prior voter's best score each candidate gets, from 0 to 1, in the candidates' order."""

    values: tuple[float, ...]
    key: ClassVar[str] = "shares"

    def __post_init__(self) -> None:
        if not self.values:
            raise SettingError("a prior must have a share for each candidate, but got none")
        for value in self.values:
            number("a prior's shares", value, 0, 1)

    def shares(self, candidates: Candidates) -> FloatArray:
        """The shares as they are."""
        return _one_each(self.values, candidates)

    def to_json(self) -> list[float]:
        """The shares, in order."""
        return list(self.values)


@dataclass(frozen=True)
class _Scores:
    """One score for each candidate, in their order: larger is better, and only the order counts."""

    values: tuple[float, ...]
    key: ClassVar[str] = "scores"

    def shares(self, candidates: Candidates) -> FloatArray:
        """From 1 for the best evenly down to 0, as `_preferred` has it."""
        return _preferred(_one_each(self.values, candidates))

    def to_json(self) -> list[float]:
        """The scores, in order."""
        return list(self.values)


@dataclass(frozen=True)
class _Trials:
    """Losses of configs on public data: each a config as its canonical text, and a loss; None if it failed."""

    values: tuple[tuple[str, float | None], ...]
    key: ClassVar[str] = "trials"

    def shares(self, candidates: Candidates) -> FloatArray:
        """Candidates are ranked: by the mean rank of their own trials, or by that of the trials around them."""
        space, inside = candidates.space, self.inside(candidates.space)
        if not inside:
            raise SettingError(
                f"a prior's trials must be of configs in the candidates' space, with the knobs {list(space.knobs)}, "
                f"but none of {counted(len(self.values), 'trial')} is; the first is "
                f"{_shown(json.loads(self.values[0][0]))}"
            )
        if len(inside) * len(candidates) > _MOST_PAIRS:
            raise SettingError(
                f"a prior's trials times candidates must be at most {_MOST_PAIRS:,}, but got {len(inside):,} trials "
                f"and {len(candidates):,} candidates: give fewer trials"
            )
        losses = np.array([math.inf if loss is None else loss for _, loss in inside])
        return _preferred(_spread(space, [config for config, _ in inside], 1 - _ranked(losses), candidates))

    def inside(self, space: Space) -> list[tuple[Config, float | None]]:
        """The trials whose configs are in a space: others say nothing about its candidates."""
        found = [(json.loads(text), loss) for text, loss in self.values]
        return [(config, loss) for config, loss in found if space.has(config)]

    def to_json(self) -> list[list[Any]]:
        """Each config and its loss."""
        return [[json.loads(text), loss] for text, loss in self.values]


@dataclass(frozen=True)
class _Near:
    """A config that is believed to be good, and how far around it that holds, as a share of each knob's range."""

    config: str
    within: float
    key: ClassVar[str] = "near"

    def __post_init__(self) -> None:
        number("within", self.within, 0, 10, "(]")

    def shares(self, candidates: Candidates) -> FloatArray:
        """A bell around the config: 1 where it lies, .61 at `within` from it in one knob, .14 at twice that."""
        config = json.loads(self.config)
        if not candidates.space.has(config):
            raise SettingError(
                f"a prior must be near a config of the candidates' space, with the knobs "
                f"{list(candidates.space.knobs)}, but got {_shown(config)}"
            )
        apart = _apart(candidates.space, candidates.configs, [config])[:, 0]
        found: FloatArray = np.exp(-((apart / self.within) ** 2) / 2)
        return found

    def to_json(self) -> dict[str, Any]:
        """The config, and how far it reaches."""
        return {"config": json.loads(self.config), "within": self.within}


_Belief = _Shares | _Scores | _Trials | _Near


@dataclass(frozen=True)
class Prior:
    """What is believed of the candidates before anybody is asked. It must be PUBLIC: no client's data may be in it.

    Examples:
        >>> Prior([0.1, 0.9, 0.5], voters=20, source="last year's winner on public data").voters
        20.0
        >>> Prior.near({"lr": 0.01}, voters=10).source
        'a belief: near lr=0.01'

    Args:
        given: one score for each candidate, in their order, of which only the order counts (larger is better); or
            trials on public data, as pairs of a config and its loss; or an Optuna study of these knobs on public data.
            Trials need not be of the candidates: one without a trial is ranked by those around it.
        voters: how many voters it counts as, from 1 to a million. With as many real voters who all say
            the opposite, the two cancel out.
        source: what it comes from, in a few words; the statement says so. Default: an Optuna study's name.
    """

    given: Any = field(repr=False)
    voters: float = _VOTERS
    source: str = ""

    def __post_init__(self) -> None:
        if self.source == "" and hasattr(self.given, "study_name"):
            object.__setattr__(self, "source", f"Optuna study '{self.given.study_name}'")
        object.__setattr__(self, "given", _belief(self.given))
        object.__setattr__(self, "voters", number("a prior's voters", self.voters, 1, _MOST_VOTERS))
        check_source(self.source)

    @classmethod
    def near(
        cls, config: Mapping[str, Value], voters: float = _VOTERS, within: float = 0.25, source: str = ""
    ) -> Prior:
        """A belief: good configs lie around this one.

        Args:
            config: a value for each knob.
            voters: how many voters the belief counts as.
            within: how far around the config it holds, as a share of each knob's range (on the knob's own scale; two
                different choices are one range apart).
            source: where the belief comes from.
        """
        belief = _Near(_text(config), number("within", within, 0, 10, "(]"))
        return cls(belief, voters, source or f"a belief: near {_shown(config)}")

    @classmethod
    def load(cls, path: str | Path, voters: float = _VOTERS) -> Prior:
        """Trials on public data that `hushtune prior`, or `save`, wrote.

        Args:
            path: the file.
            voters: how many voters the prior counts as.
        """
        raw = _read(Path(path))
        if set(raw) != {"kind", "trials", "source"}:
            raise SettingError(f"{path} is no prior that `hushtune prior` wrote: its keys are {sorted(raw)}")
        return cls(_trials(raw["trials"]), voters, raw["source"])

    def settled(self, candidates: Candidates) -> Prior:
        """With one share of its voters' best score for each candidate.

        Args:
            candidates: the public list.
        """
        shares = self.given.shares(candidates)
        if len(shares) > 1 and shares.min() == shares.max():
            raise SettingError(
                f"a prior must prefer some candidates to others, but this one ranks all {len(shares)} alike: leave it "
                "out"
            )
        source = self.source
        if isinstance(self.given, _Trials):
            used, trials = len(self.given.inside(candidates.space)), len(self.given.values)
            if used < trials:
                source = f"{source or _UNNAMED}; {used} of {trials} trials are in the space"
        return Prior(_Shares(tuple(float(share) for share in shares)), self.voters, source)

    @property
    def shares(self) -> FloatArray:
        """How much of a voter's best score each candidate gets, from 0 to 1, once settled; shape (candidates,)."""
        if not isinstance(self.given, _Shares):
            raise SettingError("the prior is not settled: call `settled` with the candidates first")
        return np.array(self.given.values)

    def scores(self, largest: int) -> tuple[int, ...]:
        """What its voters add to each candidate's sum, once settled.

        Args:
            largest: a voter's best score.
        """
        return tuple(int(score) for score in np.floor(self.shares * self.voters * largest + 0.5))

    @property
    def alone(self) -> int:
        """The place of the candidate that it would choose by itself, once settled; of several, the first."""
        return int(np.argmax(self.shares))

    def __str__(self) -> str:
        """In the labels of a comparison."""
        return f"{self.voters:g} voters"

    @property
    def words(self) -> str:
        """What it is, for people."""
        named = self.source.replace('"', "'")
        return f"{self.voters:g} voters, from " + (f'"{named}"' if named else _UNNAMED)

    def to_json(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {self.given.key: self.given.to_json(), "voters": self.voters, "source": self.source}

    @classmethod
    def from_json(cls, raw: Any) -> Prior:
        """What `to_json` wrote; anything else is a SettingError.

        Args:
            raw: plain values.
        """
        if not isinstance(raw, Mapping):
            raise SettingError(f"a prior must be a table, but got {type(raw).__name__}")
        values = dict(raw)
        voters, source = values.pop("voters", _VOTERS), values.pop("source", "")
        match values:
            case {"shares": list(shares)} if len(values) == 1 and all(map(_is_number, shares)):
                return cls(_Shares(tuple(map(float, shares))), voters, source)
            case {"scores": list(scores)} if len(values) == 1:
                return cls(scores, voters, source)
            case {"trials": trials} if len(values) == 1:
                return cls(_trials(trials), voters, source)
            case {"near": {"config": dict(config), "within": within}} if len(values) == 1:
                return cls.near(config, voters, within, source)
        raise SettingError(
            f"a prior must have one of 'shares', 'scores', 'trials' and 'near', but got {sorted(map(str, values))}"
        )


def check_source(source: Any) -> str:
    """What a prior comes from, if statements can say it.

    Args:
        source: one line of text.
    """
    if not isinstance(source, str) or len(source) > _MOST_SOURCE or not source.isprintable():
        raise SettingError(
            f"a prior's source must be a text of one line, at most {_MOST_SOURCE} characters, but got "
            f"{str(source)[:50]!r}"
        )
    return source


def save(path: Path, trials: Sequence[tuple[Config, float | None]], source: str) -> None:
    """Writes trials on public data for `Prior.load`.

    Args:
        path: the file.
        trials: configs and losses; None: it failed.
        source: what they come from.
    """
    content = {"kind": FILE_KIND, **Prior(_trials(list(trials)), source=source).to_json()}
    del content["voters"]
    write(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def alone(prior: Prior | None, candidates: Candidates) -> Mapping[str, Config]:
    """What a settled prior would have chosen by itself, under the name that results show it by; nothing without one.

    Args:
        prior: a method's.
        candidates: the public list.
    """
    return {"the public prior alone": candidates[prior.alone]} if prior is not None else {}


def said(prior: Prior | None, voters: int) -> tuple[str, ...]:
    """What a statement says of a prior; nothing without one.

    Args:
        prior: a method's.
        voters: how many real ones there are.
    """
    if prior is None:
        return ()
    much = f" It outweighs the {counted(voters, 'real voter')}." if prior.voters > voters else ""
    return (
        f"A prior counts as {prior.words}.{much} It must be PUBLIC: the guarantee does not cover data that it comes "
        "from.",
    )


def _belief(given: Any) -> _Belief:
    if isinstance(given, _Shares | _Scores | _Trials | _Near):
        return given
    if hasattr(given, "get_trials") and hasattr(given, "directions"):
        return _study(given)
    if isinstance(given, str | bytes | Mapping) or not hasattr(given, "__len__") or not len(given):
        raise SettingError(
            "a prior must be one score per candidate, (config, loss) trials or an Optuna study, but got "
            f"{type(given).__name__}" + (" with nothing in it" if hasattr(given, "__len__") and not len(given) else "")
        )
    items = list(given)
    if isinstance(items[0], list | tuple):
        return _trials(items)
    if wrong := [item for item in items if not _is_number(item)]:
        raise SettingError(f"a prior's scores must be finite numbers, but got {str(wrong[0])[:80]!r}")
    return _Scores(tuple(float(item) for item in items))


def _study(study: Any) -> _Trials:
    """Complete trials of an Optuna study, as losses."""
    from optuna.study import StudyDirection
    from optuna.trial import TrialState

    if len(study.directions) != 1:
        raise SettingError(f"a prior's study must have one direction, but has {len(study.directions)}")
    sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
    done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not done:
        raise SettingError("a prior's study must have a complete trial, but has none")
    return _trials([(trial.params, sign * trial.value) for trial in done])


def _trials(given: Any) -> _Trials:
    wrong = "a prior's trials must be pairs of a config and its loss"
    if not isinstance(given, list) or not given:
        raise SettingError(f"{wrong}, but got {type(given).__name__ if given else 'none'}")
    if len(given) > _MOST_TRIALS:
        raise SettingError(f"a prior must have at most {_MOST_TRIALS:,} trials, but got {len(given):,}")
    found = []
    for item in given:
        if not isinstance(item, list | tuple) or len(item) != 2:
            raise SettingError(f"{wrong}, but got {str(item)[:80]}")
        config, loss = item
        known = loss is None or (isinstance(loss, int | float | np.number) and not isinstance(loss, bool))
        if not isinstance(config, Mapping) or not known:
            raise SettingError(f"{wrong}, but got {str(item)[:80]}")
        found.append((_text(config), float(loss) if _is_number(loss) else None))
    return _Trials(tuple(found))


def _text(config: Mapping[str, Value]) -> str:
    try:
        return config_key(config)
    except (TypeError, ValueError):
        raise SettingError(f"a config must have plain, finite values, but got {str(dict(config))[:80]}") from None


def _shown(config: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())[:100]


def _is_number(value: Any) -> bool:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _one_each(values: Sequence[float], candidates: Candidates) -> FloatArray:
    if len(values) != len(candidates):
        raise SettingError(
            f"a prior must have one score for each of {len(candidates)} candidates, but got {len(values)}"
        )
    return np.array(values)


def _ranked(values: FloatArray) -> FloatArray:
    """From 0 for the smallest to 1 for the largest, evenly in ranks; equals share theirs."""
    if len(values) == 1:
        return np.ones(1)
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    found: FloatArray = (np.cumsum(counts) - (counts + 1) / 2)[places] / (len(values) - 1)
    return found


def _preferred(values: FloatArray) -> FloatArray:
    """From 1 for the largest evenly down to 0, place by place: the best 30% get something (of few, all but the worst).

    How bad bad candidates are says nothing about which is best, and to add it to the sums does more harm where it is
    wrong. Equals get the same.
    """
    better = len(values) - np.searchsorted(np.sort(values), values, side="right")
    places = min(max(_PREFERRED * len(values), _FEWEST_PREFERRED), max(len(values) - 1, 1))
    found: FloatArray = np.clip(1 - better / places, 0.0, 1.0)
    return found


def _spread(space: Space, configs: Sequence[Config], good: FloatArray, candidates: Candidates) -> FloatArray:
    """A value for each candidate: the mean of its own trials, or of all, those around it weighing most (Shepard)."""
    apart = _apart(space, candidates.configs, configs)
    own = apart < 1e-9  # the same point, but for rounding
    weights = np.where(own.any(1, keepdims=True), own, np.maximum(apart, 1e-9) ** -(len(space.knobs) + 1.0))
    found: FloatArray = (weights * good).sum(1) / weights.sum(1)
    return found


def _apart(space: Space, one: Sequence[Config], other: Sequence[Config]) -> FloatArray:
    """Distances, shape (one, other): each knob's range counts 1, and so do two different choices."""
    left, right = space.encode(one), space.encode(other)
    found = np.zeros((len(left), len(right)))
    for name, knob in space.knobs.items():
        gap = left[:, None, space.columns[name]] - right[None, :, space.columns[name]]
        if isinstance(knob, Choice):
            found += gap.any(-1)
        else:
            found += (gap**2).sum(-1)
    return np.sqrt(found)


def _read(path: Path) -> dict[str, Any]:
    wrong = f"{path} is no prior that `hushtune prior` wrote"
    try:
        if path.exists() and not path.is_file():
            raise SettingError(f"a prior must be a file, but {path} is none")
        if path.stat().st_size > _MOST_BYTES:
            raise SettingError(f"{wrong}: it is too large")
        content = path.read_bytes()
    except OSError as error:
        raise SettingError(f"a prior's file must be readable, but {path} is not: {error.strerror}") from None
    try:
        raw = json.loads(content)
    except (ValueError, RecursionError):
        raise SettingError(f"{wrong}: it is not JSON") from None
    if not isinstance(raw, dict) or raw.get("kind") != FILE_KIND:
        raise SettingError(f"{wrong}: its kind must be '{FILE_KIND}'")
    return raw


reads(Prior, Prior.from_json)
