"""What a report shows of a vote of which only the winner was opened."""

from __future__ import annotations

from hushtune.methods.figures import Figure, Told
from hushtune.seals.oracle import ANSWERS


def winner_figure(told: Told, prior: bool) -> Figure:
    """Why there is nothing to draw: one place was opened, and no total.

    Args:
        told: the result.
        prior: whether a public prior counts beside the ballots.
    """
    (place,) = told.opened[-1].blocks[ANSWERS]
    counted = "all ballots and of the public prior" if prior else "all ballots"
    return Figure(
        f"Only the winner's place was opened: candidate {place} of {len(told.candidates)} has the largest total of "
        f"{counted}, as far as the noise lets one tell. No total was opened, so there are no bars to draw: no reader "
        "can tell how far ahead the winner is, which candidate comes second, or how many votes any of them got."
    )
