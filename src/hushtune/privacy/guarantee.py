"""The guarantee a user asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from hushtune.core.checks import number
from hushtune.core.codec import fields_to_json
from hushtune.core.errors import SettingError
from hushtune.privacy.accounting import Budget, Neighbours, Unit, check_budget

EPSILON_RANGE = (1e-3, 50.0)  # where accounting is tight and takes seconds; beyond lies no useful guarantee
DELTA_RANGE = (1e-12, 0.1)  # or 0, for what is pure


@dataclass(frozen=True)
class Privacy:
    """(epsilon, delta)-differential privacy of everything a run opens.

    For any two neighbouring data sets and any set of outcomes, P[outcome] <= e^epsilon P'[outcome] + delta (Dwork et
    al. 2006). Who takes part is public. Against whom it holds follows from the seal: under `Curator` and `Clear` not
    against the server.

    Args:
        epsilon: the privacy budget, from 0.001 to 50.
        delta: the chance of a larger loss, from 1e-12 to 0.1. Or 0: legal where all that a run opens is pure, as the
            answers to tests are; noisy sums and private training are not.
        unit: whose presence is hidden: a whole "client", or a single "record" of a client.
        neighbours: which data sets must look alike. "replace-one": one unit's data becomes anything else.
            "zero-out": one client's contribution becomes nothing, while everybody knows who took part.
            "add-remove": a record appears or disappears (record unit only: the roster of clients is public).
    """

    epsilon: float
    delta: float = 1e-5
    unit: Unit = "client"
    neighbours: Neighbours = "replace-one"

    def __post_init__(self) -> None:
        given = check_budget(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", number("epsilon", self.epsilon, *EPSILON_RANGE))
        object.__setattr__(self, "delta", _delta(given.delta))
        check_terms(self.unit, self.neighbours)

    @property
    def change(self) -> Neighbours:
        """What a unit's vector may become in a neighbouring data set.

        A record that changes, appears or disappears makes its part answer something else, and so does a replaced
        client. Only a client that is zeroed out contributes nothing.
        """
        return "replace-one" if self.unit == "record" else self.neighbours

    @property
    def budget(self) -> Budget:
        """Epsilon and delta alone."""
        return Budget(self.epsilon, self.delta)

    def to_json(self) -> dict[str, Any]:
        """The guarantee as plain values, by field."""
        return fields_to_json(self)


def _delta(value: float) -> float:
    """A delta that a guarantee can have."""
    low, high = DELTA_RANGE
    if value == 0 or low <= value <= high:
        return value
    raise SettingError(f"`delta = 0` or `{low:g} <= delta <= {high:g}` must hold, but got delta={value!r}")


def check_terms(unit: str, neighbours: str) -> None:
    """Refuses a unit or a relation that means nothing here."""
    if unit not in get_args(Unit):
        raise SettingError(f"unit must be one of {list(get_args(Unit))}, but got '{unit}'")
    if neighbours not in get_args(Neighbours):
        raise SettingError(f"neighbours must be one of {list(get_args(Neighbours))}, but got '{neighbours}'")
    if unit == "record" and neighbours == "zero-out":
        raise SettingError("neighbours='zero-out' is for unit='client'; for records use 'add-remove' or 'replace-one'")
    if unit == "client" and neighbours == "add-remove":
        raise SettingError(
            "neighbours='add-remove' cannot hold for unit='client', because the roster of clients is public; "
            "use 'zero-out' or 'replace-one'"
        )
