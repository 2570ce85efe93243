"""FLoRA: one loss surface from everybody's local search, and its minimiser for a single federated training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from hushtune.client.pairs import Pairs, read
from hushtune.client.party import Party
from hushtune.client.rows import MOST_VOTERS
from hushtune.client.search.adaptive import Adaptive
from hushtune.client.search.base import Search
from hushtune.core.checks import integer, number
from hushtune.core.errors import SettingError
from hushtune.core.processes.pool import default_jobs
from hushtune.core.space import Candidates, Config, Space
from hushtune.methods.base import Facts, Method, Openings
from hushtune.methods.contributions import (
    MOST_SENT,
    SMALLEST_SPREAD,
    CentredScores,
    PredictedScores,
    SentPairs,
    loss_range,
)
from hushtune.methods.decode import argmax, smooth
from hushtune.methods.figures import Figure, Told
from hushtune.methods.surface.figures import figures_of
from hushtune.methods.surface.models import KINDS, MOST_FOR_PROCESS, Kind, heterogeneity, loss_surfaces
from hushtune.privacy.bounds import Bound
from hushtune.privacy.guarantee import Privacy
from hushtune.seals.base import Seal

Opens = Literal["pairs", "sum", "noisy sum"]
_POINTS: Mapping[Opens, int] = {"pairs": 4_096, "sum": 512, "noisy sum": 512}  # of a space, if no candidates are given
_MANY = 16  # clients whose models are worth further processes


@dataclass(frozen=True)
class Surface(Method):
    """FLoRA (Zhou et al. 2023), Algorithm 1; with the average of local models as a private sum, beyond the paper.

    Under seal 'clear' and without epsilon every client's (config, loss) pairs are opened, as in the paper, and the
    minimiser may be a client's own config. Otherwise only `kind="aplm"` can be had: it is an average, so the clients'
    own models predict the public candidates' losses, and only the sum of the predictions is opened.

    Privacy: unit "client", or "record" with `voters`. With epsilon one noisy sum is opened. A unit's predictions are
    clipped to `losses`, centred and shortened to the L2 norm C = `spread` x range x sqrt(candidates); replacing a unit
    moves the sum by 2C at most, zeroing a client out by C. Accounted by Rényi divergences of multi-dimensional
    Skellam noise (Agarwal, Kairouz, Liu 2021), under `Curator` of Gaussian noise by privacy loss distributions. Without
    epsilon exact values are opened, and nothing is guaranteed.

    Args:
        kind: "sgm", one model of everybody's pairs; "sgm+u", plus `alpha` times its uncertainty; "mplm", the maximum of
            the clients' own models; "aplm", their average.
        candidates: the public points among which the minimum is looked for. Default: those given to `tune`; if that is
            a space, 4,096 quasi-random points of it, or 512 if a sum is opened.
        send: only so many pairs of each client count, those with the smallest losses (T' in the paper). Default: all.
        alpha: for "sgm+u": 0 or more.
        model: for "sgm" and "sgm+u": "forest", or "gp", a Gaussian process.
        losses: the smallest and the largest loss; others are clipped.
        spread: for a noisy sum: the largest standard deviation of a client's centred predictions over the candidates,
            as a share of the losses' range, up to 0.5; longer vectors are shortened to it.
        decode: for a noisy sum: "smooth" smooths it over the space of candidates first, which costs no privacy;
            "argmax" takes the largest entry.
        voters: into how many parts each client splits its rows, with `Privacy(unit="record")`; each searches and has a
            model of its own.
        opens: what is opened; follows from kind, seal and privacy.
    """

    kind: Kind = "aplm"
    candidates: Candidates | None = None
    send: int | None = None
    alpha: float = 1.0
    model: Literal["forest", "gp"] = "forest"
    losses: tuple[float, float] = (0.0, 1.0)
    spread: float = 0.02
    decode: Literal["smooth", "argmax"] = "smooth"
    voters: int = 1
    opens: Opens | None = None
    name: ClassVar[str] = "surface"
    adaptive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "losses", loss_range(self.losses))
        object.__setattr__(self, "voters", integer("voters", self.voters, 1, MOST_VOTERS))
        if self.send is not None:
            object.__setattr__(self, "send", integer("send", self.send, 2, MOST_SENT))
        object.__setattr__(self, "alpha", number("alpha", self.alpha, 0, 1e6))
        object.__setattr__(self, "spread", number("spread", self.spread, SMALLEST_SPREAD, 0.5))
        for field, known in (
            ("kind", KINDS),
            ("model", ("forest", "gp")),
            ("decode", ("smooth", "argmax")),
            ("opens", (None, *_POINTS)),
        ):
            if not isinstance(getattr(self, field), str | None) or getattr(self, field) not in known:
                raise SettingError(f"{field} must be one of {list(known)}, but got {getattr(self, field)!r}")
        if self.model == "gp" and self.kind not in ("sgm", "sgm+u"):
            raise SettingError(f"model='gp' is for kind 'sgm' and 'sgm+u', but got kind='{self.kind}'")
        if self.candidates is not None and not isinstance(self.candidates, Candidates):
            raise SettingError(f"candidates must be space.sample(...) or the like, but got {self.candidates!r}")

    def listed(self, given: Any, privacy: Privacy | None, seal: Seal) -> Candidates:
        """The method's own points, the candidates given, or some of the space given."""
        space = given.space if isinstance(given, Candidates) else given
        if self.candidates is not None and isinstance(space, Space) and space != self.candidates.space:
            raise SettingError("the method's candidates must be of the space that is tuned, but got another one")
        if isinstance(given, Space):
            return self.candidates or given.sample(_POINTS[self._opens(privacy, seal)])
        if self.candidates is not None and given != self.candidates:
            raise SettingError("give candidates to `tune` or to the method, but not different ones to both")
        return super().listed(given, privacy, seal)

    def searched(self, given: Any) -> Search:
        """Adaptively: models fill the gaps."""
        return Search.adaptive()

    def _opens(self, privacy: Privacy | None, seal: Seal) -> Opens:
        if privacy is None and seal.shows_each:
            return "pairs"
        if self.kind != "aplm":
            raise SettingError(
                f"surface '{self.kind}' needs every client's pairs in the clear: seal=Clear() and no privacy; "
                "'aplm' is an average of the clients' own models and can be protected"
            )
        return "sum" if privacy is None else "noisy sum"

    def settled(self, facts: Facts) -> Surface:
        """With what is opened, and how many pairs of each client count."""
        search, opens = facts.search, self._opens(facts.privacy, facts.seal)
        most = min(MOST_SENT, search.trials if isinstance(search, Adaptive) else len(facts.candidates))
        send = min(self.send or most, most)
        if self.opens not in (None, opens):
            raise SettingError(
                f"opens follows from kind, seal and privacy: it must be '{opens}', but got '{self.opens}'"
            )
        if len(facts.candidates) < 2:
            raise SettingError("a surface needs at least 2 candidates, but got 1")
        if send < 2:
            raise SettingError(f"a surface needs at least 2 trials of each client, but got {send}")
        if opens == "pairs" and self.voters > 1:
            raise SettingError(f"voters={self.voters} needs privacy with unit='record': without, a client is whole")
        if self.model == "gp" and facts.clients * send > MOST_FOR_PROCESS:
            raise SettingError(
                f"model='gp' takes at most {MOST_FOR_PROCESS} pairs in all, but {facts.clients} clients send {send} "
                f"each; try send={max(2, MOST_FOR_PROCESS // facts.clients)}"
            )
        if opens == "pairs" and not isinstance(search, Adaptive):
            _told_apart(facts.candidates)
        return replace(self, candidates=None, send=send, opens=opens)

    def query(self, candidates: Candidates, search: Search) -> SentPairs | PredictedScores | CentredScores:
        """What each client is asked.

        Args:
            candidates: the public list.
            search: how clients fill their trials.
        """
        if self.opens is None or self.send is None:
            raise SettingError("what is opened is not settled; ask `settled` first")
        if self.opens == "pairs":
            domain = candidates.space if isinstance(search, Adaptive) else candidates
            return SentPairs(search, domain, self.losses, self.send)
        if self.opens == "sum":
            return PredictedScores(search, candidates, self.losses, self.send)
        return CentredScores(search, candidates, self.losses, self.send, self.spread)

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """One sum, or all pairs at once."""
        return (self.query(candidates, Search()).bound,)

    def variants(self) -> Mapping[str, Surface]:
        """Both ways to decode the same noisy sum."""
        if self.opens != "noisy sum":
            return {}
        return {"argmax": replace(self, decode="argmax"), "smooth": replace(self, decode="smooth")}

    def total(self, candidates: Candidates, answered: int) -> float | None:
        """Centred scores add up to nearly 0."""
        return 0.0 if self.opens == "noisy sum" else None

    def known(self, parties: Sequence[Party], candidates: Candidates, search: Search) -> Mapping[str, float]:
        """gamma_p of the clients' own searches."""
        query = PredictedScores(search, candidates, self.losses, self.send or MOST_SENT)
        found = [query.trials(party)[0].losses for party in parties if party.failure is None]
        return _heterogeneity([float(losses.min()) for losses in found if len(losses)], self.losses[1])

    def figures(self, told: Told) -> list[Figure]:
        """The clients' pairs, if those were opened."""
        return figures_of(told) if told.pairs() else []

    def run(self, run: Openings) -> Config:
        """Builds the surface from what is opened, and takes its minimiser."""
        query = self.query(run.candidates, run.search)
        if isinstance(query, SentPairs):
            return self._from_pairs(run, query)
        opened = run.sum(query)
        scores = opened["scores"]
        if self.opens == "noisy sum":
            if self.decode == "argmax":
                return run.candidates[argmax(scores)]
            return run.candidates[smooth(scores, 0.0, run.noise_variance(), run.candidates).best]
        clipped = int(opened["clipped"][0])
        run.note("clipped losses", clipped)
        _flat(run, scores, clipped, self.losses)
        return run.candidates[argmax(scores)]

    def _from_pairs(self, run: Openings, query: SentPairs) -> Config:
        """As in the paper: all pairs are known, and the clients' own points are searched as well."""
        clients: dict[str, Pairs] = {}
        clipped = 0
        for client, blocks in run.gather(query).items():
            pairs, outside = read(blocks, self.losses)
            clipped += outside
            if len(pairs.losses):
                clients[client] = pairs
            else:
                run.leave_out(client, "no config has a finite loss there")
        owners = [client for client, pairs in clients.items() for _ in pairs.losses]
        at = np.concatenate([run.candidates.encoded, *(pairs.points for pairs in clients.values())])
        jobs = default_jobs() if len(clients) >= _MANY else 1
        pairs_of = list(clients.values())
        found = loss_surfaces((self.kind,), pairs_of, at, run.search.seed, self.alpha, self.model, jobs)[self.kind]
        _flat(run, found, clipped, self.losses)
        run.note("clipped losses", clipped)
        best = [float(pairs.losses.min()) for pairs in clients.values()]
        for name, value in _heterogeneity(best, self.losses[1]).items():
            run.note(name, value)
        place = int(np.argmin(found))
        if place < len(run.candidates):
            return run.candidates[place]
        run.note("the chosen config was found by", owners[place - len(run.candidates)])
        return run.candidates.space.decode(at[place])[0]


def _told_apart(candidates: Candidates) -> None:
    """Refuses candidates that are not different points of their space, as which they would be opened."""
    if not all(candidates.space.has(config) for config in candidates):
        raise SettingError("pairs are opened as points of the space, so candidates that are scored must lie inside it")
    if len(np.unique(candidates.encoded, axis=0)) < len(candidates):
        raise SettingError("pairs are opened as points of the space, so candidates that are scored must differ there")


def _flat(run: Openings, values: Any, clipped: int, losses: tuple[float, float]) -> None:
    """Says that a surface is flat; if that may be so because of the range of losses, that is an error."""
    if np.min(values) < np.max(values):
        return
    if clipped:
        raise SettingError(
            f"a surface needs losses that differ, but all are alike; some were clipped to losses={losses}"
        )
    run.note("the surface", "flat: all configs are alike to it")


def _heterogeneity(best: Sequence[float], worst: float) -> dict[str, float]:
    """gamma_p and the scores that it is the ratio of, unless there are none."""
    gamma = heterogeneity(best, worst)
    if not np.isfinite(gamma):
        return {}
    return {"gamma_p": gamma, "best local score": worst - min(best), "worst local score": worst - max(best)}
