"""What a report shows of scores that were tested: the answers, test by test."""

from __future__ import annotations

from hushtune.methods.figures import Figure, Told, value_text
from hushtune.seals.oracle import ANSWERS, NONE


def figures_of(told: Told) -> list[Figure]:
    """What was answered; no score was opened."""
    answers = told.opened[-1].blocks[ANSWERS]
    rows = tuple((str(test), _answer(told, place)) for test, place in enumerate(answers, 1))
    words = "Answers about the sums of scores, each under its own noise. No score was opened, and none can be told."
    return [Figure(words, columns=("test", "answer"), rows=rows)]


def _answer(told: Told, place: int) -> str:
    if place == NONE:
        return "no candidate is above the threshold"
    config = ", ".join(f"{name} {value_text(value)}" for name, value in told.candidates[place].items())
    return f"candidate {place}: {config}"
