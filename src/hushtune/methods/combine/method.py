"""PrivTuna: the clients' good configs combined into one, by averages or by the best dense cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hushtune.client.pairs import Pairs, read
from hushtune.client.rows import MOST_VOTERS
from hushtune.client.search.adaptive import Adaptive
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.checks import integer, number
from hushtune.core.errors import AbortedError, SettingError
from hushtune.core.space import Candidates, Config, Space
from hushtune.methods.base import Facts, Method, Openings
from hushtune.methods.combine.cells import Cells
from hushtune.methods.combine.figures import figures_of
from hushtune.methods.combine.strategies import Cluster, combined, config_at, dbscan, good, linear, ranked, scores_of
from hushtune.methods.combine.tallies import SMALLEST_CELL, CellCounts, ConfigSums, means_of
from hushtune.methods.contributions import MOST_SENT, SentPairs, loss_range
from hushtune.methods.figures import Figure, Told, config_text
from hushtune.privacy.bounds import Bound, Tally
from hushtune.privacy.guarantee import Privacy
from hushtune.seals.base import Seal

Strategy = Literal["mean", "median", "trimmed", "best-mean", "best-median", "dbscan"]
Opens = Literal["pairs", "sums", "noisy sums"]
SUMS: tuple[Strategy, ...] = ("mean", "best-mean", "dbscan")  # the strategies that are a matter of sums
_BEST = 0.05  # of a client's configs, for best-mean and best-median
_FINE = 2**20  # steps of the integer grid for one config, where sums are exact
_COARSE = 2**8  # where they are noisy: for all of a client's configs together
_ABOVE_NOISE = 3  # standard deviations
_LISTED = 16  # candidates of a space, if none are given: they only stand for it
_RANKS = ("best", "second best", "third best")  # of the clusters that a result returns


@dataclass(frozen=True)
class Combine(Method):
    """PrivTuna (Mitic et al. 2024), Algorithm 2 with the strategies of section IV-A, PF-Mean and PF-DBSCAN.

    What is opened follows from seal and privacy. Under seal 'clear' and without epsilon it is every client's pairs, and
    all strategies can be had. Otherwise it is sums, for "mean", "best-mean" and "dbscan": exact ones (under seal
    'threshold' or 'quorum' only their quotients, and which cells of a grid are dense), or noisy ones if epsilon is set.

    "dbscan" on sums is PF-DBSCAN, which clusters cells of a grid: another algorithm than DBSCAN, with other results.
    The config is the centre of the best cluster; the centres of the next two are in the result's notes.

    Privacy: unit "client", or "record" with `voters`. With epsilon noisy sums are opened: every unit's good configs
    have the same total weight, no entry is negative and sums are at most their counts, so replacing a unit moves counts
    and sums by sqrt(2) times one unit's largest L2 norm at most (`Tally`; "mean" by that norm itself). Both sums
    together are accounted by Rényi divergences of Skellam noise (Agarwal, Kairouz, Liu 2021). Without epsilon exact
    values are opened: averages of few clients can give one away.

    Args:
        strategy: "mean", "median" and "trimmed" (without the tenth at either end) of all clients' good configs;
            "best-mean" and "best-median" of each client's best 5%; "dbscan", the centre of the best dense cluster.
        within: which of a client's configs are good: their score is at most this share below its best, from 0 to 1.
        most: how many of them at most, the best ones.
        scale: "linear" combines all knobs on a linear scale, as the paper; "log" those with a logarithmic scale on it.
        min_points: how many points make a region dense (MinPts). Default: twice the number of knobs; with noise at
            least twice what an even spread over all cells would give. Noise must also be exceeded threefold.
        radius: of a point's surroundings, when all pairs are opened, with axes scaled to [0, 1]. Default: at the knee
            of the distances to the (MinPts + 1)-th nearest point.
        cell: edge of the cells, when sums are opened (L in Algorithm 3), with axes scaled to [0, 1]; at most 1.
        losses: the smallest and the largest loss that count; others are clipped. A score is what a loss is below the
            largest, as a share of the range: with losses from 0 to 1, the accuracy.
        voters: into how many parts each client splits its rows, for `Privacy(unit="record")`.
        opens: what is opened. Default: "pairs" where all pairs may be opened, else sums; "sums" can be asked for there.
    """

    strategy: Strategy = "mean"
    within: float = 0.15
    most: int = 10
    scale: Literal["log", "linear"] = "linear"
    min_points: int | None = None
    radius: float | None = None
    cell: float = 0.15
    losses: tuple[float, float] = (0.0, 1.0)
    voters: int = 1
    opens: Opens | None = None
    name: ClassVar[str] = "combine"
    adaptive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "losses", loss_range(self.losses))
        object.__setattr__(self, "within", number("within", self.within, 0, 1))
        object.__setattr__(self, "most", integer("most", self.most, 1, MOST_SENT))
        object.__setattr__(self, "cell", number("cell", self.cell, SMALLEST_CELL, 1))
        object.__setattr__(self, "voters", integer("voters", self.voters, 1, MOST_VOTERS))
        if self.min_points is not None:
            object.__setattr__(self, "min_points", integer("min_points", self.min_points, 1, 2**20))
        if self.radius is not None:
            object.__setattr__(self, "radius", number("radius", self.radius, 1e-9, 1e3))
        for field, known in (
            ("strategy", get_args(Strategy)),
            ("scale", ("log", "linear")),
            ("opens", (None, *get_args(Opens))),
        ):
            if not isinstance(getattr(self, field), str | None) or getattr(self, field) not in known:
                raise SettingError(f"{field} must be one of {list(known)}, but got {getattr(self, field)!r}")

    def listed(self, given: Any, privacy: Privacy | None, seal: Seal) -> Candidates:
        """The candidates given, or a few of the space given, which nobody scores."""
        return given.sample(_LISTED) if isinstance(given, Space) else super().listed(given, privacy, seal)

    def searched(self, given: Any) -> Search:
        """Candidates are scored, as in the paper's grids; a space is searched."""
        return Search.adaptive() if isinstance(given, Space) else Search()

    def settled(self, facts: Facts) -> Combine:
        """With what is opened, how many configs of each client count, and how many make a region dense."""
        opens = self._settled_opens(facts)
        if opens == "pairs" and self.voters > 1:
            raise SettingError(f"voters={self.voters} needs privacy with unit='record': without, a client is whole")
        trials = facts.search.trials if isinstance(facts.search, Adaptive) else len(facts.candidates)
        if trials > MOST_SENT:
            raise SettingError(f"at most {MOST_SENT} configs of each client can be combined, but got {trials}")
        found = replace(self, opens=opens, most=min(self.most, trials))
        if self.strategy.startswith("best-"):
            found = replace(found, within=1.0, most=math.ceil(_BEST * trials))
        if self.strategy != "dbscan":
            return found
        least = 2 * len(facts.candidates.space.knobs)
        if opens != "pairs":
            cells = Cells(self.space(facts.candidates), self.cell).count
            if opens == "noisy sums":
                least = max(least, math.ceil(2 * found.most * facts.clients * self.voters / cells))
        reached = found.most * facts.clients * self.voters
        if self.min_points is not None and self.min_points > reached:
            raise SettingError(
                f"min_points must be at most what all clients can send, {facts.clients} x {found.most}"
                f"{f' x {self.voters} voters' if self.voters > 1 else ''}, but got {self.min_points}"
            )
        return replace(found, min_points=self.min_points or min(least, reached))

    def _settled_opens(self, facts: Facts) -> Opens:
        free = facts.privacy is None and facts.seal.shows_each
        allowed: tuple[Opens, ...] = ("noisy sums",) if facts.privacy is not None else ("sums",)
        if free:
            allowed = ("pairs", "sums")
        opens: Opens = self.opens or allowed[0]
        if opens not in allowed:
            raise SettingError(f"opens must be one of {list(allowed)} with this seal and privacy, but got '{opens}'")
        if opens != "pairs" and self.strategy not in SUMS:
            raise SettingError(
                f"strategy '{self.strategy}' needs every client's pairs in the clear: seal=Clear() and no privacy; "
                f"{', '.join(repr(name) for name in SUMS)} are sums, which can be protected"
            )
        return opens

    def space(self, candidates: Candidates) -> Space:
        """The space in whose unit cube configs are combined.

        Args:
            candidates: the public list.
        """
        return candidates.space if self.scale == "log" else linear(candidates.space)

    def query(
        self, candidates: Candidates, search: Search, clusters: tuple[int, ...] = ()
    ) -> SentPairs | CellCounts | ConfigSums:
        """What each client is asked: first, or once the clusters are known.

        Args:
            candidates: the public list.
            search: how clients fill their trials.
            clusters: the cluster of each cell, once they are known.
        """
        if self.opens is None:
            raise SettingError("what is opened is not settled; ask `settled` first")
        domain = candidates.space if isinstance(search, Adaptive) else candidates
        if self.opens == "pairs":
            trials = search.trials if isinstance(search, Adaptive) else len(candidates)
            return SentPairs(search, domain, self.losses, max(2, trials))
        noisy, values = self.opens == "noisy sums", candidates.space.width + 1
        unit = max(1, _COARSE // self.most) if noisy else _FINE
        common = (search, domain, self.losses, self.within, self.most, self.scale)
        if self.strategy == "dbscan" and not clusters:
            counted = round(unit * math.sqrt(1 + values)) if noisy else 1  # so that both sums are as sensitive
            return CellCounts(*common, counted, noisy, self.cell, None if noisy else self.min_points)
        edge = self.cell if self.strategy == "dbscan" else 0.0
        return ConfigSums(*common, unit, noisy, edge, clusters)

    def bounds(self, candidates: Candidates) -> tuple[Bound, ...]:
        """All pairs at once, one sum, or counts and then sums of as many clusters as there will be."""
        first = self.query(candidates, Search()).bound
        if self.opens == "pairs" or self.strategy != "dbscan":
            return (first,)
        cells = Cells(self.space(candidates), self.cell).count
        second = self.query(candidates, Search(), clusters=(0,) * cells).bound
        return first, second

    def figures(self, told: Told) -> list[Figure]:
        """Dense cells and clusters; the clients' pairs, if those were opened."""
        return super().figures(told) or figures_of(self, told)

    def run(self, run: Openings) -> Config:
        """Combines what is opened."""
        space = self.space(run.candidates)
        if self.opens == "pairs":
            return config_at(space, self._from_pairs(run, space))
        clusters: tuple[int, ...] = ()
        least = run.asked  # every client has at least one good config
        if self.strategy == "dbscan":
            cells = Cells(space, self.cell)
            dense = self._dense(run)
            run.note("dense cells", float(dense.sum()))
            run.note("fewest clients that can make a cell dense", self._fewest())
            clusters = tuple(cells.clusters(dense).tolist())
            if dense.any():
                least = self.min_points or 1  # a cluster has a dense cell at least
            else:
                run.note("no cell was dense, so combined were", "all configs")
                clusters = (0,) * cells.count
        query = self.query(run.candidates, run.search, clusters)
        assert isinstance(query, ConfigSums)
        found = self._noisy_clusters(run, query) if self.opens == "noisy sums" else self._clusters(run, query, least)
        return config_at(space, _told(run, found, space).centre)

    def _fewest(self) -> float:
        """How many clients' points a dense cell needs at least: with 1, a cluster can be one client's alone."""
        return float(math.ceil((self.min_points or 1) / self.most))

    def _dense(self, run: Openings) -> NDArray[np.bool_]:
        """Which cells are dense (Algorithm 3, lines 8 to 11)."""
        query = self.query(run.candidates, run.search)
        assert self.min_points is not None
        if self.opens == "sums":
            return np.asarray(run.unopened(query)["counts"].at_least(self.min_points).open() > 0)
        return self.dense(run.sum(query)["counts"], run.candidates, run.noise_variance())

    def dense(self, counts: IntArray | FloatArray, candidates: Candidates, noise_variance: float) -> NDArray[np.bool_]:
        """Which of the opened counts are those of dense cells.

        Args:
            counts: of all cells, as opened.
            candidates: the public list.
            noise_variance: of each count.
        """
        bound = self.bounds(candidates)[0]
        assert isinstance(bound, Tally)
        least = (self.min_points or 1) * bound.unit
        return np.asarray(counts >= max(least, _ABOVE_NOISE * noise_variance**0.5))

    def _clusters(self, run: Openings, query: ConfigSums, least: int) -> list[Cluster]:
        """Means of the clusters' configs and scores (lines 22 to 28). Their sizes are not needed, and not opened."""
        total = run.unopened(query)
        quotients = total["sums"].over(total["counts"], least * query.unit, query.unit).open()
        centres, scores = means_of(quotients, query.groups)
        return ranked([Cluster(*found, 0.0) for found in zip(centres, scores.tolist(), strict=True)])

    def _noisy_clusters(self, run: Openings, query: ConfigSums) -> list[Cluster]:
        """The same from noisy sums; clusters rank by what noise of one standard deviation leaves of their scores."""
        total, deviation = run.sum(query), run.noise_variance() ** 0.5
        counts = np.maximum(total["counts"], max(1.0, deviation))
        centres, scores = means_of(total["sums"] / np.tile(counts, len(total["sums"]) // query.groups), query.groups)
        order = np.argsort(deviation / counts - scores, kind="stable")
        return [Cluster(centres[at], float(scores[at]), 0.0) for at in order]

    def _from_pairs(self, run: Openings, space: Space) -> FloatArray:
        """Section IV-A: all pairs are known."""
        query = self.query(run.candidates, run.search)
        found: list[Pairs] = []
        for client, blocks in run.gather(query).items():
            pairs, _ = read(blocks, self.losses)
            if not len(pairs.losses):
                run.leave_out(client, "no config has a finite loss there")
                continue
            if self.scale == "linear":
                pairs = Pairs(space.encode(run.candidates.space.decode(pairs.points)), pairs.losses)
            found.append(good(pairs, self.losses, self.within, self.most))
        if not found:
            raise AbortedError("no client has a config with a finite loss, so there is nothing to combine")
        points = np.concatenate([pairs.points for pairs in found])
        if self.strategy != "dbscan":
            return combined(self.strategy, points, space)
        assert self.min_points is not None
        scores = np.concatenate([scores_of(pairs, self.losses) for pairs in found])
        clusters, radius = dbscan(points, scores, self.min_points, self.radius)
        run.note("radius", radius)
        if not clusters:
            run.note("no region was dense, so combined were", "all configs")
            return combined("mean", points, space)
        return _told(run, clusters, space).centre


def _told(run: Openings, clusters: list[Cluster], space: Space) -> Cluster:
    """The best cluster; how many there are, and the three best with their scores, go into the result."""
    run.note("clusters", float(len(clusters)))
    for rank, cluster in zip(_RANKS, clusters, strict=False):
        if cluster is not clusters[0]:  # that one is the result's config
            run.note(f"centre of the {rank}", config_text(config_at(space, cluster.centre)))
        run.note(f"mean score of the {rank}", cluster.score)
    return clusters[0]
