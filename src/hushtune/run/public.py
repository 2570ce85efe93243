"""Losses of a study's candidates on PUBLIC data: nobody is protected, nothing is charged."""

from __future__ import annotations

from hushtune.client.client import Client
from hushtune.client.rows import WHOLE
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray
from hushtune.core.observer import Observer
from hushtune.core.space import Candidates
from hushtune.federation.local import LocalFederation


def public_losses(
    client: Client, candidates: Candidates, search: Search, jobs: int | None, observer: Observer
) -> FloatArray:
    """One loss for each candidate, NaN where scoring failed. Trials are kept: what was scored is not scored again.

    Args:
        client: holds the public data and the objective.
        candidates: the public list.
        search: with the seed that configs are scored with.
        jobs: processes for scoring. Default: one per core.
        observer: who watches.
    """
    alone = LocalFederation([client], seed=0, jobs=jobs)
    alone.check(candidates.space, WHOLE)
    alone.score(search, candidates, observer, private=False)
    (party,) = alone.parties.values()
    return party.losses(candidates.configs, search.seed)
