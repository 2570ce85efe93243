"""Plans of votes, for tests."""

from __future__ import annotations

from typing import Any

import hushtune as ht
from hushtune.methods.vote.plan import VotePlan


def plan(*arguments: Any, **settings: Any) -> VotePlan:
    found = ht.plan(*arguments, **{"observer": ht.Silent(), **settings})
    assert isinstance(found, VotePlan)
    return found


def cost(*arguments: Any, **settings: Any) -> VotePlan:
    """Where only the noise and its cost are looked at, a few simulated votes will do."""
    return plan(*arguments, repetitions=10, **settings)
