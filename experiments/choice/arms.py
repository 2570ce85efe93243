"""What is compared: forms of a vote, ballots, priors, and what clients may do to their own losses before they vote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from experiments.ballots import Votes
from experiments.choice.federations import Known
from hushtune.core.arrays import FloatArray
from hushtune.methods.decode import smooth
from hushtune.methods.prior import Prior
from hushtune.methods.vote.method import Vote
from hushtune.seals.base import Seal
from hushtune.seals.masked.seal import Masked
from hushtune.seals.quorum.seal import Quorum

PUBLISHED, SUM, WINNER, WITH_PRIOR = "DP-HYPE as published", "sum opened", "winner", "winner, prior"
MAIN = (PUBLISHED, SUM, WINNER, WITH_PRIOR)
SUM_WITH_PRIOR, REVERSED, REVERSED_SUM = "sum opened, prior", "winner, reversed prior", "sum opened, reversed prior"
SMOOTHED, REPEATED, BOTH = "winner, clients smooth", "winner, clients repeat", "winner, clients repeat and smooth"
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
WIDTHS = (0.125, 0.25, 0.5, 1.0)
USUAL_TOP, USUAL_SOFT = "votes, usual k", "soft, usual width"
VOTERS = 30
_SUMS, _WINNERS = Masked(0.0, 0.0), Quorum(nodes=3)
_WINNER = Vote(opens="winner")

Kind = Literal["main", "ballot", "prior", "client"]


@dataclass(frozen=True)
class Arm:
    """One way to choose.

    Args:
        kind: which table it is in.
        vote: what is run.
        seal: where.
        votes: the federation's, with the losses that clients vote by.
    """

    kind: Kind
    vote: Vote
    seal: Seal
    votes: Votes


def arms(known: Known, prior: Prior) -> dict[str, Arm]:
    """All arms of a federation, by name.

    Args:
        known: the federation.
        prior: from another data set.
    """
    votes = known.votes
    misled = Prior((-votes.accuracy).tolist(), VOTERS, "the candidates in reverse order")
    found = {
        PUBLISHED: Arm("main", Vote(decode="argmax"), _SUMS, votes),
        SUM: Arm("main", Vote(), _SUMS, votes),
        WINNER: Arm("main", _WINNER, _WINNERS, votes),
        WITH_PRIOR: Arm("main", replace(_WINNER, prior=prior), _WINNERS, votes),
        SUM_WITH_PRIOR: Arm("prior", Vote(prior=prior), _SUMS, votes),
        REVERSED: Arm("prior", replace(_WINNER, prior=misled), _WINNERS, votes),
        REVERSED_SUM: Arm("prior", Vote(prior=misled), _SUMS, votes),
    }
    for voters in (10, 100):
        other = replace(prior, voters=voters)
        found[f"winner, prior of {voters}"] = Arm("prior", replace(_WINNER, prior=other), _WINNERS, votes)
    size = len(votes.candidates)
    ballots = {f"votes, k = {share:.0%}": Vote(round(share * size), opens="winner") for share in SHARES}
    ballots |= {f"soft, width {width:g}": Vote(ballot="soft", width=width, opens="winner") for width in WIDTHS}
    ballots |= {USUAL_TOP: Vote(ballot="top", opens="winner"), USUAL_SOFT: Vote(ballot="soft", opens="winner")}
    found |= {name: Arm("ballot", vote, _WINNERS, votes) for name, vote in ballots.items()}
    return found | {name: Arm("client", _WINNER, _WINNERS, other) for name, other in _denoised(known).items()}


def _denoised(known: Known) -> Mapping[str, Votes]:
    """The federation with losses that its clients have made less noisy, each by itself."""
    found = {SMOOTHED: smoothed(known.votes)}
    if known.repeated is not None:
        found |= {REPEATED: known.repeated, BOTH: smoothed(known.repeated)}
    return found


def smoothed(votes: Votes) -> Votes:
    """Each voter's losses, smoothed over the space of candidates.

    A loss is a share of wrong answers on held-out rows. How noisy such shares are a voter can tell from the smallest
    step between its own losses, which is one row.

    Args:
        votes: of a federation.
    """
    return replace(votes, losses=np.array([_smoothed(one, votes) for one in votes.losses]))


def _smoothed(losses: FloatArray, votes: Votes) -> FloatArray:
    finite = np.isfinite(losses)
    if not finite.any() or np.ptp(losses[finite]) == 0:
        return losses
    filled = np.where(finite, losses, losses[finite].max())
    steps = np.diff(np.unique(filled.round(6)))
    variance = float(np.mean(filled * (1 - filled))) * float(steps.min())
    found = smooth(filled, None, max(variance, 1e-9), votes.candidates).mean
    return np.where(finite, found, np.nan)
