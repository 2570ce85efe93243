"""What options of several commands share: `--json`, `--verbose`, who watches, and what a shell completes.

Completion must answer at once, so the names are written here; a test compares them to the registries.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushtune.core.words import up

if TYPE_CHECKING:
    from hushtune.core.observer import Observer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens to the error stream.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
LogJson = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Add what happens to this file, as lines of JSON; -: to the error stream."),
]
Jobs = Annotated[int | None, typer.Option(min=1, max=1024, help="Processes. Default: one per core.")]

DATA = [
    *("adult", "cifar10", "digits", "emnist", "har", "landmine", "mnist", "svhn"),
    *("eeg", "electricity", "heart", "oil_spill", "pc3", "pollen", "sonar"),  # FLoRA's tables
]
SPLITS = ["iid", "dirichlet:", "quantity:", "noise:", "imb1", "imb2"]
METHODS = ["combine", "noisy-max", "propose-test", "surface", "thompson", "vote"]
SEALS = ["clear", "curator", "masked", "quorum", "threshold"]
UNITS = ["client", "record"]
NEIGHBOURS = ["replace-one", "add-remove", "zero-out"]
RULES = ["sums", "renyi"]


def among(values: list[str]) -> Callable[[str], list[str]]:
    """Completes one of the values."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


def folder_named(text: str) -> Path:
    """A folder that an option names; an empty text, such as a variable that is not set, names none."""
    if not text.strip():
        raise typer.BadParameter(f"must name a folder, but got '{text}'")
    return Path(text)


def log(verbose: bool) -> None:
    """Warnings go to the error stream; with `--verbose` also what happens on the way."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )


@contextmanager
def watching(quiet: bool, log_json: str | None) -> Iterator[Observer]:
    """Who watches a command: bars, lines of JSON, both or nobody. On the error stream lines take the place of bars."""
    from hushtune.core.jsonlines import JsonLines
    from hushtune.core.observer import bars_unless, together

    if log_json is None:
        yield bars_unless(quiet)
    elif log_json == "-":
        yield JsonLines(sys.stderr)
    else:
        Path(log_json).parent.mkdir(parents=True, exist_ok=True)
        with Path(log_json).open("a", encoding="utf-8") as file:
            yield together(bars_unless(quiet), JsonLines(file))


def budget_text(pair: Mapping[str, Any] | None, figure: Callable[[float], str] = up) -> str:
    """An epsilon and a delta as words; "none" without them.

    Args:
        pair: both, by name.
        figure: how each is written: `up` for what was spent, `down` for what is left, `as_set` for a limit.
    """
    return f"epsilon {figure(pair['epsilon'])}, delta {figure(pair['delta'])}" if pair is not None else "none"


def print_json(value: Any) -> None:
    """One object on one line; JSON has no word for what is not finite, so that is null."""
    print(json.dumps(_finite(value), allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
