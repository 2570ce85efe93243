"""Verifies a saved result: everything it claims is computed again from the events and openings it recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hushtune.errors import HushtuneError, SettingError
from hushtune.methods import METHODS
from hushtune.privacy.accounting import rule_from_json
from hushtune.privacy.noise import Noise
from hushtune.result import Result
from hushtune.run import Replay, plan_of
from hushtune.seals import seal_from_json


@dataclass(frozen=True)
class Check:
    """One claim, whether it holds, and the figures."""

    claim: str
    holds: bool
    detail: str


def verify(folder: str | os.PathLike[str]) -> list[Check]:
    """Recomputes what result.json in the folder claims. Trusts its events, not its epsilons."""
    result = Result.load(folder)
    method = _method(result)
    return [*_privacy(result, method), *_noise(result), *_choice(result, method), *_disclosures(result)]


def _method(result: Result) -> Any:
    fields = dict(result.method)
    name = fields.pop("name", None)
    if name not in METHODS:
        raise SettingError(f"method must be one of {sorted(METHODS)}, but got {name!r}")
    return METHODS[name](**fields)


def _privacy(result: Result, method: Any) -> Iterator[Check]:
    if result.privacy is None:
        yield Check("no epsilon is claimed", not result.plan, "the run was made without differential privacy")
        return
    privacy = result.privacy
    plan = plan_of(method.bounds(result.candidates), privacy, Noise(result.noise["scale"]))
    yield Check(
        "the events follow from the method's bounds and the noise",
        plan == result.plan,
        f"{len(plan)} expected, {len(result.plan)} recorded",
    )
    spent = rule_from_json(result.rule).spent([(result.plan, privacy.delta)], privacy.delta)
    yield Check(
        "epsilon computed from the events is the epsilon stated",
        abs(spent.epsilon - result.spent.epsilon) <= 1e-6 * spent.epsilon and spent.delta == result.spent.delta,
        f"computed ({spent.epsilon:.6g}, {spent.delta:g}), "
        f"stated ({result.spent.epsilon:.6g}, {result.spent.delta:g})",
    )
    yield Check(
        "it stays within what was asked for",
        spent.epsilon <= privacy.epsilon and spent.delta <= privacy.delta,
        f"asked for ({privacy.epsilon:g}, {privacy.delta:g})",
    )


def _noise(result: Result) -> Iterator[Check]:
    seal = seal_from_json(result.seal)
    honest = seal.honest(result.asked)
    yield Check(
        "the noise is carried by the fewest honest clients that can complete a round",
        honest == result.noise["honest"] and result.answered >= seal.needed(result.asked),
        f"{honest} of {result.asked} carry it; {result.answered} answered, {seal.needed(result.asked)} needed",
    )
    share = Noise(result.noise["scale"]).share_variance(honest)
    expected = [float(share * opened.answered) for opened in result.opened]
    yield Check(
        "the noise variance stated for each opened sum follows",
        expected == [opened.noise_variance for opened in result.opened],
        ", ".join(f"{value:.6g}" for value in expected),
    )


def _choice(result: Result, method: Any) -> Iterator[Check]:
    try:
        config = method.run(Replay(result.candidates, result.opened))
        detail = f"decided again: {config}"
    except HushtuneError as error:
        config, detail = None, str(error)
    yield Check(
        "the method decides the same from the opened values",
        config == result.config == result.candidates[result.index],
        detail,
    )


def _disclosures(result: Result) -> Iterator[Check]:
    sums = [d for d in result.disclosures if d.what.startswith("summed ")]
    shapes = [(sum(len(values) for values in opened.blocks.values()),) for opened in result.opened]
    yield Check(
        "every opened sum is in the list of disclosures",
        [d.shape for d in sums] == shapes,
        f"{len(shapes)} opened, {len(sums)} listed",
    )
