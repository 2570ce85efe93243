"""What `plan` says of a vote, in words: its form, its noise, its prior and its records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hushtune.core.words import counted
from hushtune.methods.decode import MOST_SMOOTHED
from hushtune.seals.base import Seal
from hushtune.seals.oracle import drawn

if TYPE_CHECKING:
    from hushtune.methods.vote.method import Vote
    from hushtune.methods.vote.plan import Believed

_FEW_ROWS = 20  # of a part, of which what it prefers says little


def form_of(vote: Vote, candidates: int) -> str:
    """What would run: what is opened, what a ballot says, and how a sum is decoded.

    Args:
        vote: settled.
        candidates: how many there are.
    """
    ballot = "ballots of centred scores (ballot=soft)"
    if vote.k is not None:
        ballot = f"{counted(vote.k, 'vote')} per ballot (k = {vote.k})"
    elif vote.width is not None:
        ballot = f"grades up to {vote.grades} (ballot=soft), width {vote.width:g}"
    if vote.opens == "winner":
        return f"only the winner is opened; {ballot}"
    decoded = "its largest entry is taken (decode=argmax)"
    if vote.decode == "smooth":
        decoded = "and smoothed over the space (decode=smooth)"
        if candidates > MOST_SMOOTHED:
            decoded = f"and ranked as it is (decode=smooth, but of more than {MOST_SMOOTHED:,} candidates)"
    return f"the noisy sum is opened, {decoded}; {ballot}"


def noise_of(vote: Vote, seal: Seal, scale: float, sigma: float, all_of_it: float, loudest: float | None) -> str:
    """The noise, and how loud it is.

    Args:
        vote: settled.
        seal: the run's.
        scale: of the noise as it is drawn.
        sigma: its standard deviation, at least.
        all_of_it: the same if everybody answers.
        loudest: the largest to be expected in a sum; None, where only the winner is opened.
    """
    if loudest is None:
        unit, any_ = "votes", "however many votes a ballot has"
        if vote.k is None:
            unit, any_ = "best grades", "whatever the width is"
        words = drawn(seal.mechanisms[0], scale)
        return f"Noise: {words}, as loud as a standard deviation of {sigma:.2f} {unit}, {any_}"
    steps = "" if vote.k is not None else ", in steps of the scores"
    return (
        f"Noise: standard deviation {sigma:.2f} at least, {all_of_it:.2f} if everybody answers; the loudest among the "
        f"candidates about {loudest:.0f}{steps}"
    )


def prior_of(vote: Vote, voters: int, believed: Believed) -> str:
    """What a prior weighs, and what the odds mean then.

    Args:
        vote: settled.
        voters: how many real ones there are.
        believed: the odds if it knows something.
    """
    assert vote.prior is not None
    own, louder = vote.prior.voters, ""
    if vote.opens == "sum" and vote.decode == "smooth":
        louder = ", at most: of a smoothed sum it counts the more, the louder the noise is"
    return (
        f"Prior: it counts as {own:g} of {own + voters:g} voters{louder}. All odds here are those of a prior that "
        "knows nothing of what is good, but for these:\n"
        f"  it ranks the good ones first {believed.first:.3f}   last {believed.last:.3f}   "
        f"without a prior {believed.without:.3f}"
    )


def records_of(vote: Vote) -> str:
    """What the odds of records assume.

    Args:
        vote: settled.
    """
    voters = vote.voters_each
    if voters == 1:
        return "Records: each client is one voter, who sees all of its rows"
    rows = "how many rows a part has is not known here: say how many a client has, such as --set rows=1000"
    if vote.rows is not None:
        each = vote.rows // voters
        rows = f"a part has about {counted(each, 'row')}" + (", which is FEW" if each < _FEW_ROWS else "")
    return (
        f"Records: each client's rows are split into {voters} parts, a voter each. The odds assume that a part prefers "
        "what all rows prefer. With few rows it does not: then bias, not noise, is the limit, and no odds show it;\n"
        f"  {rows}"
    )
