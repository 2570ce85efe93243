"""Which form of a vote fits at the public facts of a run: one sentence, by the same simulation as its odds."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hushtune.core.errors import SettingError
from hushtune.core.words import as_set, counted
from hushtune.methods.plan import Prospect
from hushtune.methods.vote.simulation import Simulation
from hushtune.seals.registry import default_seal, secret_seal

LIKELY = 0.9  # a chance that is enough
GRID = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
"""The epsilons among which one that is enough is looked for."""
_DELTA = 1e-5  # of a sum, if the run itself needs none


def told(chance: float) -> str:
    """A simulated chance in words: it cannot be told from certainty.

    Args:
        chance: from 0 to 1.
    """
    return "more than 99%" if chance > 0.99 else f"{chance:.0%}"


@dataclass(frozen=True)
class Way:
    """A form of the vote, under a seal.

    Args:
        name: in words.
        chance: of a good choice.
        enough: the least epsilon of the grid at which that is likely; None: there is none.
    """

    name: str
    chance: float
    enough: float | None


def advice(simulation: Simulation, prospect: Prospect, chance: float) -> str:
    """Which of two forms fits: the one that would run, and the one that opens the other thing.

    Args:
        simulation: of the run.
        prospect: the run.
        chance: of a good choice, in the form that would run.
    """
    own, other = _names(prospect)
    ways = [Way(own, chance, _enough(simulation, prospect, chance))]
    with suppress(SettingError):  # a form that would be refused is none
        found = _other(prospect)
        there = simulation.cases(found)[0][0].success
        ways.append(Way(other, there, _enough(simulation, found, there)))
    return f"With {_facts(prospect)}{_sentence(ways)}."


def _facts(prospect: Prospect) -> str:
    voters = prospect.study.method.voters_each
    each = f" of {voters} voters each" if voters > 1 else ""
    return f"{counted(prospect.clients, 'client')}{each} at epsilon {as_set(prospect.privacy.epsilon)}"


def _sentence(ways: list[Way]) -> str:
    """What the two ways come to; the one that fits stands first."""
    likely = f"{LIKELY:.0%}"
    fitting = [way for way in ways if way.chance >= LIKELY]
    lacking = [way for way in ways if way.chance < LIKELY]
    if not fitting:
        if all(way.enough is None for way in ways):
            names = " or ".join(way.name for way in ways)
            return f" nothing fits: with {names} not even epsilon {as_set(GRID[-1])} gives odds of {likely}"
        needs = sorted(ways, key=lambda way: way.enough or 2 * GRID[-1])
        lacks = ", ".join(f"{_needs(way)} (here {told(way.chance)})" for way in needs)
        return f" nothing fits: for odds of {likely} {lacks}"
    words = [f"({told(way.chance)}{_from(way)})" for way in fitting]
    if len(fitting) > 1:
        named = " and ".join(f"{way.name} {how}" for way, how in zip(fitting, words, strict=True))
        return f" both fit: {named}"
    return "; ".join([f": {fitting[0].name} fits {words[0]}", *(f"for {likely} {_needs(way)}" for way in lacking)])


def _from(way: Way) -> str:
    return f"; {LIKELY:.0%} from epsilon {as_set(way.enough)} on" if way.enough is not None else ""


def _needs(way: Way) -> str:
    if way.enough is None:
        return f"{way.name} is not enough even at epsilon {as_set(GRID[-1])}"
    return f"{way.name} needs epsilon {as_set(way.enough)}"


def _names(prospect: Prospect) -> tuple[str, str]:
    """Of the run's own form and of the other: the seals' names, if they say which is which."""
    own, other, opens = prospect.seal, _other_seal(prospect), _opens(prospect)
    turned = "sum" if opens == "winner" else "winner"
    if own.name != other.name:
        delta = "" if prospect.privacy.delta or opens == "sum" else f" with delta {as_set(_DELTA)}"
        return f"seal '{own.name}'", f"seal '{other.name}'{delta}"
    return f"opens={opens}", f"opens={turned}"


def _opens(prospect: Prospect) -> str:
    vote: Any = prospect.study.method
    return str(vote.opens)


def _other_seal(prospect: Prospect) -> Any:
    """Under which the other form is looked at: the same one, if it can have both without a server that sees sums."""
    own = prospect.seal
    if _opens(prospect) == "sum":
        return own if own.mechanisms else secret_seal()
    return default_seal() if own.served_by else own


def _other(prospect: Prospect) -> Prospect:
    """The run with the other form, and with that form's own defaults."""
    given: Any = prospect.study.given
    opens = "sum" if _opens(prospect) == "winner" else "winner"
    method = replace(given, opens=opens, decode=None, k=None, width=None, grades=None)
    if opens == "sum" and given.prior is not None:
        method = replace(method, ballot="top")
    privacy = prospect.privacy
    if opens == "sum" and not privacy.delta:
        privacy = replace(privacy, delta=_DELTA)
    return prospect.changed(method=method, privacy=privacy, seal=_other_seal(prospect))


def _enough(simulation: Simulation, prospect: Prospect, chance: float) -> float | None:
    """The least epsilon of the grid at which a good choice is likely; larger steps first, then halves.

    Args:
        simulation: of the run.
        prospect: a run like it.
        chance: at the run's own epsilon.
    """

    def likely(at: int) -> bool:
        privacy = replace(prospect.privacy, epsilon=GRID[at])
        with suppress(SettingError):  # noise that nobody can draw
            return simulation.cases(prospect.changed(privacy=privacy), rough=True)[0][0].success >= LIKELY
        return False

    own, low, high, step = prospect.privacy.epsilon, -1, len(GRID), 1  # not likely at `low`, likely at `high`
    if chance >= LIKELY:
        high = next((at for at, epsilon in enumerate(GRID) if epsilon >= own), high)
        while high - step > low and likely(high - step):
            high, step = high - step, 2 * step
        low = max(low, high - step)
    else:
        low = max((at for at, epsilon in enumerate(GRID) if epsilon <= own), default=low)
        while low + step < high and not likely(low + step):
            low, step = low + step, 2 * step
        high = min(high, low + step)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if likely(middle) else (middle, high)
    return GRID[high] if high < len(GRID) else None
