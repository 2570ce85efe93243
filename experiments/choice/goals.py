"""What was to be reached, checked on every federation to which it applies; and what misses it, by how much."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from experiments.choice.arms import PUBLISHED, SUM, WINNER, WITH_PRIOR
from experiments.choice.experiment import Row

_ROOM = 0.05  # of the mean candidate below OPT, at least: elsewhere there is nothing to choose
_CLIENTS = 100
Reached = Callable[[str, float], float]


def goals(found: Sequence[Row]) -> Iterator[str]:
    """A line per goal: on how many federations it is met, and where it is not.

    Args:
        found: rows of the experiment.
    """
    own = [row for row in found if row["arm"] == "federation" and row["clients"] == _CLIENTS]
    own = [row for row in own if row["opt"] - row["random"] >= _ROOM]
    known = {(row["name"], row["arm"], row.get("epsilon")): row.get("accuracy") for row in found}
    adult = [row for row in own if row["data"] == "adult"]

    def at_least(these: list[Row], mine: tuple[str, Any], other: tuple[str, Any], less: float, what: str) -> str:
        gaps = {}
        for row in these:
            ours, theirs = known.get((row["name"], *mine)), known.get((row["name"], *other))
            if ours is not None and theirs is not None:
                gaps[f"{row['data']} {row['split']}"] = float(ours) - (float(theirs) - less)
        missed = {name: gap for name, gap in gaps.items() if gap < 0}
        words = "; ".join(f"{name} by {-100 * gap:.1f} points" for name, gap in missed.items())
        return f"{what}: met on {len(gaps) - len(missed)} of {len(gaps)}" + (f"; missed on {words}" if missed else "")

    winner = "the winner at epsilon .25"
    yield at_least(own, (WINNER, 0.25), (PUBLISHED, 0.5), 0.01, f"{winner}, beside DP-HYPE at .5 less a point")
    yield at_least(adult, (WINNER, 0.25), (PUBLISHED, 1), 0.01, f"{winner}, beside DP-HYPE at 1 less a point, Adult")
    yield at_least(own, (WINNER, 0.5), (PUBLISHED, 3), 0.02, "the winner at .5, beside DP-HYPE at 3 less two points")
    for epsilon in sorted({row["epsilon"] for row in found if row.get("epsilon") not in (None, "inf")}):
        what = f"the winner at {epsilon:g}, beside the opened sum at {epsilon:g} less half a point"
        yield at_least(own, (WINNER, epsilon), (SUM, epsilon), 0.005, what)
    what = "with a prior at .1, beside the winner alone at .25 less two points"
    yield at_least(own, (WITH_PRIOR, 0.1), (WINNER, 0.25), 0.02, what)
