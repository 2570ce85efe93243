"""How good configs really are: known in marked simulations only, from a stand-in for the whole federation."""

from __future__ import annotations

import numpy as np

from hushtune.client.client import Client
from hushtune.client.search.adaptive import Adaptive
from hushtune.client.search.base import Search
from hushtune.core.errors import SettingError
from hushtune.core.observer import Observer
from hushtune.core.space import Candidates, Config
from hushtune.federation.local import LocalFederation


class Reference:
    """Scores on the reference's data, from 0 to 1 if losses are; what fails is as bad as the worst that does not.

    `arms` are `opt`, the best candidate's score, and `random_guess`, the mean candidate's; if the clients searched on
    their own, only `opt`: the best that such a search finds on the reference's data.

    Args:
        client: the stand-in.
        seed: of the simulation.
        search: what fills its trials.
        candidates: the public candidates.
        federation: the simulated one, for its home and its number of processes.
        observer: who watches the scoring.
    """

    def __init__(
        self,
        client: Client,
        seed: int,
        search: Search,
        candidates: Candidates,
        federation: LocalFederation,
        observer: Observer,
    ) -> None:
        stand_in = LocalFederation([client], federation.home, None, seed, federation.jobs)
        stand_in.score(search, candidates, observer, private=False, name="reference figures")
        (self._party,) = stand_in.parties.values()
        self._seed = search.seed
        if isinstance(search, Adaptive):
            losses = np.array([loss for _, loss in search.found(self._party, candidates.space)])
        else:
            losses = self._party.losses(candidates.configs, self._seed)
        good = 1 - losses[np.isfinite(losses)]
        if not len(good):
            raise SettingError("the simulation's reference must score at least one candidate, but all of them failed")
        self._worst = float(good.min())
        self.arms = {"opt": float(good.max())}
        if not isinstance(search, Adaptive):
            every = np.where(np.isfinite(losses), 1 - losses, self._worst)
            self.arms["random_guess"] = float(every.mean())

    def of(self, config: Config) -> float:
        """A config's score on the reference's rows; if it has none, the worst of the candidates."""
        (loss,) = self._party.losses([config], self._seed)
        return float(1 - loss) if np.isfinite(loss) else self._worst
