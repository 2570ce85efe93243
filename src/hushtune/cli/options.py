"""What options of several commands share: `--json`, lists of numbers, and the values that a shell completes.

Completion must answer at once, so the names are written here; a test compares them to the registries.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Jobs = Annotated[int | None, typer.Option(min=1, max=1024, help="Processes. Default: one per core.")]

DATA = [
    *("adult", "cifar10", "digits", "emnist", "har", "landmine", "mnist", "svhn"),
    *("eeg", "electricity", "heart", "oil_spill", "pollen", "sonar"),  # FLoRA's tables
]
SPLITS = ["iid", "dirichlet:", "quantity:", "noise:", "imb1", "imb2"]
SEALS = ["clear", "curator", "masked", "threshold"]
UNITS = ["client", "record"]
NEIGHBOURS = ["replace-one", "add-remove", "zero-out"]
RULES = ["sums", "renyi"]


def among(values: list[str], several: bool = False) -> Callable[[str], list[str]]:
    """Completes one of the values; of `several` with commas, the last."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if several else ("", "", incomplete)
        return [before + comma + value for value in values if value.startswith(last)]

    return complete


def print_json(value: Any) -> None:
    """One object on one line; JSON has no word for what is not finite, so that is null."""
    print(json.dumps(_finite(value), allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_numbers(name: str, text: str) -> list[float]:
    """Numbers with commas between them."""
    from hushtune.errors import SettingError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"{name} must be numbers such as 10,100, but got {text!r}") from None


def read_counts(name: str, text: str, low: int = 1) -> list[int]:
    """Integers with commas between them."""
    from hushtune.checks import integer
    from hushtune.errors import SettingError

    found = read_numbers(name, text)
    if not all(number.is_integer() for number in found):
        raise SettingError(f"{name} must be integers such as 10,100, but got {text!r}")
    return [integer(name, int(number), low) for number in found]


def read_epsilons(text: str) -> list[float]:
    """Refuses, before anything is measured, what no guarantee can have."""
    from hushtune.bench import privacy_of

    found = read_numbers("epsilon", text)
    for epsilon in found:
        privacy_of(epsilon)
    return found
