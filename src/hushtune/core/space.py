"""What can be tuned: a Space of knobs, a Config (one point), and Candidates (a public, ordered list).

The knobs are Optuna's distributions under shorter names, so an Optuna user's search space is a Space already.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
    json_to_distribution,
)

from hushtune.core.arrays import FloatArray
from hushtune.core.checks import integer
from hushtune.core.codec import reads
from hushtune.core.errors import SettingError

MOST = 2**20  # points of a sample
Value = None | bool | int | float | str
Config = dict[str, Any]
"""One point of a space: a value for each knob, by name. Plain values: numbers, texts, booleans, None."""

Float = FloatDistribution
"""A number from `low` to `high`, both finite: `Float(1e-4, 1.0, log=True)`, or with a `step`. Optuna's."""
Int = IntDistribution
"""A whole number from `low` to `high`, both included: `Int(1, 8)`, with `log` or a `step`. Optuna's."""
Choice = CategoricalDistribution
"""One of several plain values: `Choice([0.0, 0.9])`; 0, 0.0 and False are different ones. Optuna's."""
Numeric = FloatDistribution | IntDistribution


def config_key(config: Mapping[str, Value]) -> str:
    """One canonical text per config: equal configs have equal keys, whatever the order of their knobs."""
    return json.dumps(dict(config), sort_keys=True, separators=(",", ":"), allow_nan=False)


class Space:
    """Named knobs, in order. Values of a float or int knob map to [0, 1], on a log scale if the knob says so.

    Examples:
        >>> space = Space(lr=Float(1e-4, 1.0, log=True), momentum=Choice([0.0, 0.9]))
        >>> len(space.grid(lr=10))
        20

    Args:
        knobs: by name, in order: `Float`, `Int`, `Choice`, or an Optuna distribution, with finite ends and plain
            choices.
    """

    def __init__(self, **knobs: BaseDistribution) -> None:
        if not knobs:
            raise SettingError("a space needs at least one knob, but got none")
        for name, knob in knobs.items():
            if not isinstance(knob, FloatDistribution | IntDistribution | CategoricalDistribution):
                raise SettingError(
                    f"knob '{name}' must be Float, Int or Choice (or an Optuna distribution), "
                    f"but got {type(knob).__name__}"
                )
            if isinstance(knob, Numeric) and not (_finite(knob.low) and _finite(knob.high)):
                raise SettingError(f"knob '{name}' must have finite ends, but got {knob.low} and {knob.high}")
            if isinstance(knob, Choice) and not all(_plain(choice) for choice in knob.choices):
                raise SettingError(
                    f"knob '{name}' must have plain choices (finite numbers, texts, booleans, None), "
                    f"but got {knob.choices}"
                )
        self.knobs: dict[str, BaseDistribution] = dict(knobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and list(self.knobs.items()) == list(other.knobs.items())

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Space({', '.join(f'{name}={knob}' for name, knob in self.knobs.items())})"

    def to_json(self) -> dict[str, Any]:
        """The space as plain values; `from_json` gives an equal space back."""
        return {name: json.loads(distribution_to_json(knob)) for name, knob in self.knobs.items()}

    @property
    def text(self) -> str:
        """The space as one line of text, the same for equal spaces."""
        return json.dumps(self.to_json())

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Space:
        """The space that `to_json` wrote.

        Args:
            raw: what `to_json` wrote.
        """
        try:
            return cls(**{name: json_to_distribution(json.dumps(knob)) for name, knob in raw.items()})
        except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError) as error:
            raise SettingError(f"a space must be JSON written by Space.to_json, but got: {error}") from None

    def has(self, config: Mapping[str, Value]) -> bool:
        """Whether a config has all knobs, and values inside their ranges.

        Args:
            config: one value per knob.
        """
        return set(config) == set(self.knobs) and all(knob_has(knob, config[n]) for n, knob in self.knobs.items())

    # ---- the unit cube -------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Which columns of `encode` belong to which knob: one per number, one per choice."""
        widths = [len(k.choices) if isinstance(k, Choice) else 1 for k in self.knobs.values()]
        ends = list(itertools.accumulate(widths))
        return {n: slice(e - w, e) for n, w, e in zip(self.knobs, widths, ends, strict=True)}

    @property
    def width(self) -> int:
        """The number of columns of `encode`."""
        return int(max(columns.stop for columns in self.columns.values()))

    def encode(self, configs: Sequence[Mapping[str, Value]]) -> FloatArray:
        """Configs as rows in the unit cube, shape (configs, width).

        A number outside its knob's range goes to the nearest end; a choice the knob does not have is all zeros.

        Args:
            configs: each with a value for every knob.
        """
        rows = np.zeros((len(configs), self.width))
        for name, knob in self.knobs.items():
            columns = self.columns[name]
            for row, config in zip(rows, configs, strict=True):
                row[columns] = _to_unit(knob, config[name])
        return rows

    def decode(self, rows: FloatArray) -> list[Config]:
        """The configs at the given rows of the unit cube, shape (configs, width).

        Args:
            rows: points of the unit cube, shape (configs, width); what lies outside goes to the nearest end.
        """
        return [
            {name: _from_unit(knob, row[self.columns[name]]) for name, knob in self.knobs.items()}
            for row in np.atleast_2d(rows)
        ]

    # ---- public candidate lists ----------------------------------------------------------------------

    def grid(self, **points: int | Sequence[Value]) -> Candidates:
        """Every combination, the last knob fastest.

        Args:
            points: for a knob, how many evenly spaced values (on its own scale), or the values themselves.
                A Choice, or a knob with a step, takes all its values when it is not named.
        """
        _no_unknown(points, self.knobs, "grid")
        axes = [_axis(name, knob, points.get(name)) for name, knob in self.knobs.items()]
        return self.candidates(dict(zip(self.knobs, v, strict=True)) for v in itertools.product(*axes))

    def sample(self, count: int, seed: int = 0) -> Candidates:
        """`count` distinct quasi-random points (scrambled Sobol; fewer if the space has fewer).

        The seed is public: candidates are chosen before anybody looks at data.

        Args:
            count: how many, from 1 to 2^20.
            seed: public, 0 or more.
        """
        from scipy.stats import qmc

        count = integer("count", count, 1, MOST)
        found: dict[str, Config] = {}
        sobol = qmc.Sobol(len(self.knobs), scramble=True, rng=integer("seed", seed, 0))
        for _ in range(8):  # a discrete space repeats itself: draw again, a few times at most
            for u in sobol.random(1 << max(3, math.ceil(math.log2(count)))):
                config = self._from_uniform(u)
                found.setdefault(config_key(config), config)
            if len(found) >= count:
                break
        return self.candidates(itertools.islice(found.values(), count))

    def candidates(self, configs: Iterable[Mapping[str, Value]]) -> Candidates:
        """An explicit list. Values may lie outside a knob's range (a library's default often does).

        Args:
            configs: each with exactly this space's knobs; no two alike.
        """
        return Candidates(self, tuple(dict(config) for config in configs))

    def _from_uniform(self, u: FloatArray) -> Config:
        config: Config = {}
        for (name, knob), x in zip(self.knobs.items(), u, strict=True):
            if isinstance(knob, Choice):
                config[name] = knob.choices[min(int(x * len(knob.choices)), len(knob.choices) - 1)]
            else:
                config[name] = _from_unit(knob, np.array([x]))
        return config


@dataclass(frozen=True)
class Candidates:
    """A finite, ordered, public list of configs of one space.

    Fixed before a run and known to every party, so choosing one of them reveals nothing about the others'
    data beyond what the run opens.

    Args:
        space: what they are points of.
        configs: at least one, all different, each with exactly the space's knobs. Values may lie outside a knob's
            range.
    """

    space: Space
    configs: tuple[Config, ...]

    def __post_init__(self) -> None:
        if not self.configs:
            raise SettingError("candidates must hold at least one config, but got an empty list")
        knobs = set(self.space.knobs)
        for index, config in enumerate(self.configs):
            if set(config) != knobs:
                raise SettingError(
                    f"candidate {index} must have exactly the knobs {sorted(knobs)}, but got {sorted(config)}"
                )
            for name, knob in self.space.knobs.items():
                _check_value(index, name, knob, config[name])
                if isinstance(knob, Float):
                    config[name] = float(config[name])
        if len({config_key(config) for config in self.configs}) < len(self.configs):
            raise SettingError("candidates must differ from each other, but got the same config twice")

    def __len__(self) -> int:
        return len(self.configs)

    def index(self, config: Mapping[str, Value]) -> int:
        """The config's place in the list; 0, 0.0 and False are different values.

        Args:
            config: one of them.
        """
        return [config_key(known) for known in self.configs].index(config_key(config))

    def __getitem__(self, index: int) -> Config:
        return dict(self.configs[index])

    def __iter__(self) -> Iterator[Config]:
        return (dict(config) for config in self.configs)

    def __hash__(self) -> int:
        return hash(self.text)

    @cached_property
    def outside(self) -> list[int]:
        """The places of those with a value outside its knob's range or choices."""
        return [at for at, config in enumerate(self.configs) if not self.space.has(config)]

    @cached_property
    def encoded(self) -> FloatArray:
        """The candidates in the unit cube, shape (candidates, width)."""
        return self.space.encode(self.configs)

    @cached_property
    def hull(self) -> Space:
        """The smallest space that holds all the configs, whose values may lie outside the candidates' own space."""
        columns = {name: [config[name] for config in self.configs] for name in self.space.knobs}
        return Space(**{name: _holding(knob, columns[name]) for name, knob in self.space.knobs.items()})

    @cached_property
    def text(self) -> str:
        """The candidates and their space as one line of text, the same for equal candidates."""
        return json.dumps(self.to_json(), allow_nan=False)

    def to_json(self) -> dict[str, Any]:
        """The candidates and their space as plain values."""
        return {"space": self.space.to_json(), "configs": [dict(config) for config in self.configs]}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Candidates:
        """The candidates that `to_json` wrote.

        Args:
            raw: what `to_json` wrote.
        """
        try:
            return cls(Space.from_json(raw["space"]), tuple(raw["configs"]))
        except (ValueError, TypeError, KeyError, ArithmeticError) as error:
            if isinstance(error, SettingError):
                raise
            raise SettingError(f"candidates must be JSON written by Candidates.to_json, but got: {error}") from None


Domain = Candidates | Space
"""What a search looks at: candidates, one by one, or a space."""


def space_of(domain: Domain) -> Space:
    """The space that a search's configs are from."""
    return domain if isinstance(domain, Space) else domain.space


# ---- one knob ----------------------------------------------------------------------------------------


def _no_unknown(given: Iterable[str], known: Iterable[str], what: str) -> None:
    for name in given:
        if name not in known:
            raise SettingError(f"{what} got '{name}', which is not a knob; knobs are {sorted(known)}")


def _check_value(index: int, name: str, knob: BaseDistribution, value: Any) -> None:
    if isinstance(knob, Choice):
        fits = isinstance(value, Value)
    elif isinstance(knob, Int):
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
    if not fits:
        raise SettingError(
            f"candidate {index}: '{name}' must suit {type(knob).__name__}, but got {value!r} ({type(value).__name__})"
        )


def _plain(value: Any) -> bool:
    return isinstance(value, Value) and (not isinstance(value, float) or math.isfinite(value))


def _finite(value: float) -> bool:
    """Whether a float can hold the number; no integer is too large for the comparison."""
    return -sys.float_info.max <= value <= sys.float_info.max


def _holding(knob: BaseDistribution, values: Sequence[Any]) -> BaseDistribution:
    """A knob of the same type that just holds the values."""
    if isinstance(knob, Choice):
        return Choice(list({(type(value), value): value for value in values}.values()))
    return (Int if isinstance(knob, Int) else Float)(min(values), max(values))


def knob_has(knob: BaseDistribution, value: Any) -> bool:
    """Whether the value lies inside the knob's range or choices."""
    if isinstance(knob, Choice):
        return any(choice == value and type(choice) is type(value) for choice in knob.choices)
    assert isinstance(knob, Numeric)
    fits = isinstance(value, int | float if isinstance(knob, Float) else int) and not isinstance(value, bool)
    return bool(fits and knob.low <= value <= knob.high)


def _ends(knob: Numeric) -> tuple[float, float]:
    low, high = float(knob.low), float(knob.high)
    return (math.log(low), math.log(high)) if knob.log else (low, high)


def _to_unit(knob: BaseDistribution, value: Any) -> Any:
    if isinstance(knob, Choice):
        return [float(choice == value and type(choice) is type(value)) for choice in knob.choices]
    assert isinstance(knob, Numeric)
    low, high = _ends(knob)
    if high == low:
        return 0.0
    if knob.log:
        value = math.log(value) if value > 0 else -math.inf
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _from_unit(knob: BaseDistribution, unit: FloatArray) -> Any:
    if isinstance(knob, Choice):
        return knob.choices[int(np.argmax(unit))]
    assert isinstance(knob, Numeric)
    u = min(1.0, max(0.0, float(unit[0])))
    low, high = _ends(knob)
    if isinstance(knob, Int) and not knob.log:
        count = (knob.high - knob.low) // knob.step + 1
        return knob.low + knob.step * min(int(u * count), count - 1)
    value = low + u * (high - low)
    value = math.exp(value) if knob.log else value
    if isinstance(knob, Int):
        return int(min(knob.high, max(knob.low, round(value))))
    if knob.step is not None:
        value = knob.low + knob.step * round((value - knob.low) / knob.step)
    return float(min(knob.high, max(knob.low, float(f"{value:.12g}"))))  # 1000.0, not 999.9999999999989


def _listed(name: str, knob: BaseDistribution, value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(knob, Choice) and not knob_has(knob, value):
        raise SettingError(f"grid({name}=...) must list choices of {list(knob.choices)}, but got {value!r}")
    return value


def _axis(name: str, knob: BaseDistribution, points: int | Sequence[Value] | None) -> list[Any]:
    if points is None:
        if isinstance(knob, Choice):
            return list(knob.choices)
        assert isinstance(knob, Numeric)
        if knob.step is None or (isinstance(knob, Int) and knob.log) or knob.high == knob.low:
            if knob.high == knob.low:
                return [knob.low]
            raise SettingError(f"grid needs the number of points for knob '{name}': grid({name}=10)")
        points = round((knob.high - knob.low) / knob.step) + 1
    if (isinstance(points, Sequence) and not isinstance(points, str | bytes)) or isinstance(points, np.ndarray):
        return [_listed(name, knob, value) for value in points]
    if isinstance(knob, Choice):
        raise SettingError(f"grid({name}=...) of a Choice takes a list of its choices, but got {points!r}")
    points = integer(name, points, 1, 10**6)
    units = np.linspace(0, 1, points) if points > 1 else np.array([0.5])
    return list(dict.fromkeys(_from_unit(knob, np.array([u])) for u in units))


def domain_from_json(raw: Mapping[str, Any]) -> Domain:
    """The candidates or the space that `to_json` wrote."""
    candidates = isinstance(raw, Mapping) and isinstance(raw.get("configs"), list)
    return Candidates.from_json(raw) if candidates else Space.from_json(raw)


reads(Space, Space.from_json)
reads(Candidates, Candidates.from_json)
reads(Domain, domain_from_json)
