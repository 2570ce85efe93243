"""The speed bars of this project: what has to be how fast, where the figure comes from, what is known beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from experiments.speed.bars import HUSHTUNE, Bar, Command, Measured, whole

BASICS = Command("basics", 20)
DEMO = Command("run examples/digits.toml --out {scratch}/demo --quiet", 40, program=HUSHTUNE)
COMPARISON = Command("compare examples/compare.toml --out {scratch}/compare --quiet", 300, full=True, program=HUSHTUNE)
PLAN = Command("plan --clients 100 --candidates 66 --epsilon 1", 5, program=HUSHTUNE)
FEW_PEERS = Command("secure-sum --clients 100 --degree 15", 3)
SUMS = Command("secure-sum --clients 100,1000", 60)
LARGE_SUM = Command("secure-sum --clients 1000,10000", 740, full=True)
FIGURE = Command("dp-hype-simulation", 80)
SPEED = Command("speed", 60)
LOOK = Command("dp-hype --data digits --quick --out {scratch}/look", 60)
ADULT = Command("dp-hype --data adult --clients 100 --split iid --out {scratch}/adult", 150, full=True)
FLOWER = Command("flower --nodes 50 --repeats 3", 90)
ENCRYPTED = Command("mhe --clients 10,20", 120)
SURFACES = Command("surfaces", 45)
AGENTS = Command("fts-speed --agents 29,100,200,400", 10)
PROPOSE = Command("propose", 15)
NODES = Command("quorum --clients 100,10000", 20)
NODES_SIGNED = Command("quorum --clients 10000 --signed", 20)
NODES_CLUSTERS = Command("quorum --clients 10 --ballot dbscan", 5)
NODES_SOFT = Command("quorum --clients 100,10000 --ballot soft", 20)
NODES_MILLION = Command("quorum --clients 100000,1000000", 900, full=True)

_SIGNED = (
    "with pinned identities a committee signs who answered, in a trip of its own; without it a lying server could open "
    "single inputs; unpinned, the bar is met"
)
_BATCHED = "1: a plain PyTorch loop over the candidates, in the same run"
_SECAGG = "15.9: Flower's SecAgg+, 15 shares, on such a machine (known, not measured by this command)"


def value(field: str, **wanted: Any) -> Callable[[Measured], float]:
    """Reads a field of the only row with the wanted values."""
    return lambda measured: float(measured.one(**wanted)[field])


def _growth(measured: Measured) -> float:
    """How much more a sum of ten times as many clients costs than n log n says."""
    few, many = 1_000, 10_000
    cost = value("cpu_seconds", clients=many)(measured) / value("cpu_seconds", clients=few)(measured)
    return round(cost / (many * math.log(many) / (few * math.log(few))), 3)


def _per_agent(measured: Measured) -> float:
    """CPU seconds of an agent among 400, over those of one among 100."""
    return round(value("cpu_seconds", agents=400)(measured) / value("cpu_seconds", agents=100)(measured) / 4, 3)


def _per_ballot(measured: Measured) -> float:
    """A node's CPU seconds for each of a million ballots, over those for each of 100,000."""
    few, many = (value("node_cpu_seconds", clients=count)(measured) / count for count in (100_000, 1_000_000))
    return round(many / few, 3)


def _slowest(measured: Measured) -> float:
    """Of all settings of so many runs over 100 candidates."""
    return max(float(row["seconds"]) for row in measured.rows if row.get("utilities") in ("uniform", "all one half"))


def _starts() -> list[Bar]:
    group = "Start and first steps"
    again = "configs scored again when a vote is repeated with another epsilon"
    return [
        Bar("help", group, "`hushtune --help`", BASICS, value("cpu_seconds", name="hushtune --help"), "CPU s", 0.5),
        Bar("import", group, "`import hushtune`", BASICS, value("cpu_seconds", name="import hushtune"), "CPU s", None),
        Bar(
            "import-modules",
            group,
            "modules that `import hushtune` leaves loaded, Python's own included",
            BASICS,
            value("modules", name="import hushtune"),
            "modules",
            None,
        ),
        Bar(
            "import-tune",
            group,
            "`import hushtune; hushtune.tune`",
            BASICS,
            value("cpu_seconds", name="import hushtune; hushtune.tune"),
            "CPU s",
            None,
        ),
        Bar("demo", group, "`make demo` after the install: 100 clients, 66 candidates", DEMO, whole, "s", 120),
        Bar("compare", group, "`hushtune compare`: all five systems on digits", COMPARISON, whole, "s", 600),
        Bar("plan", group, "`hushtune plan`, README's example", PLAN, whole, "s", 1),
        Bar("report", group, "a report of 100 candidates", BASICS, value("cpu_seconds", name="report"), "CPU s", None),
        Bar("trials-kept", group, again, BASICS, value("scored_again", name="rerun"), "configs", 0),
    ]


def _sums() -> list[Bar]:
    group = "Masked sums of 100 integers, all clients and the server together"
    plain, signed = {"name": "trips", "pinned": False}, {"name": "trips", "pinned": True}
    later = "trips of a later sum of the run"
    return [
        Bar(
            "sum-15",
            group,
            "100 clients, 15 peers (INSECURE, to compare)",
            FEW_PEERS,
            value("cpu_seconds", clients=100),
            "CPU s",
            1.0,
            _SECAGG,
        ),
        Bar("sum-100", group, "100 clients", SUMS, value("cpu_seconds", clients=100), "CPU s", 3, _SECAGG),
        Bar(
            "sum-1000",
            group,
            "1,000 clients",
            SUMS,
            value("cpu_seconds", clients=1_000),
            "CPU s",
            60,
            why="half of it is checking signatures; machines of one kind differ by more (52.2 in secure-sum.md)",
        ),
        Bar(
            "sum-10000",
            group,
            "10,000 clients",
            LARGE_SUM,
            value("cpu_seconds", clients=10_000),
            "CPU s",
            750,
            why="machines of one kind, and days, differ by a tenth (673 in secure-sum.md)",
        ),
        Bar("sum-growth", group, "from 1,000 to 10,000 clients, over n log n", LARGE_SUM, _growth, "times", 1.0),
        Bar("trips", group, "trips of a run's first sum, unpinned", BASICS, value("first", **plain), "trips", 4),
        Bar("trips-later", group, f"{later}, unpinned", BASICS, value("later", **plain), "trips", 2),
        Bar(
            "trips-pinned",
            group,
            "trips of a run's first sum, pinned",
            BASICS,
            value("first", **signed),
            "trips",
            4,
            why=_SIGNED,
        ),
        Bar("trips-later-pinned", group, f"{later}, pinned", BASICS, value("later", **signed), "trips", 2, why=_SIGNED),
    ]


def _votes() -> list[Bar]:
    group = "Votes: noise and simulations"
    million = "a million voters, 100 candidates: ballots, one sum, one draw (the bar: it must fit in memory)"
    figure = "DP-HYPE's Figure 2: 208 points, 5,000 votes each"
    return [
        Bar(
            "noise-shares",
            group,
            "noise shares of 1,000 clients, 100 candidates",
            BASICS,
            value("cpu_seconds", name="noise shares"),
            "CPU s",
            1.0,
        ),
        Bar("voters", group, million, BASICS, value("cpu_seconds", name="simulated vote"), "CPU s", None),
        Bar(
            "voters-memory", group, "the same, peak", BASICS, value("peak_megabytes", name="simulated vote"), "MB", None
        ),
        Bar("figure-2", group, figure, FIGURE, whole, "s", 300),
    ]


def _training() -> list[Bar]:
    group = "100 candidates trained at once"
    networks = {
        "adult": ("Adult's network, 108-64-64-1", 7.0, ""),
        "tiny": ("64-32-1", 15.0, ""),
        "mlp": (
            "784-64-10",
            3.5,
            "its matrix products run at half of this machine's peak already, so that there is little left to win; "
            "runs differ by a tenth",
        ),
        "cnn": ("two convolutions on 8x8 pixels", 3.5, ""),
    }
    found = [
        Bar(f"speed-{name}", group, what, SPEED, value("ratio", name=name), "times", bar, _BATCHED, "higher", why)
        for name, (what, bar, why) in networks.items()
    ]
    adult = "DP-HYPE on Adult, 100 clients, iid: scoring, 100 federated trainings, 6 epsilons x 20 runs"
    authors = (
        "about 12 hours: the artifact's whole iid figure, nine federations, 8 EPYC cores and a slice of an A100 "
        "(stated there)"
    )
    return [
        *found,
        Bar("dp-hype-look", group, "DP-HYPE on digits, `--quick`", LOOK, whole, "s", 120),
        Bar("dp-hype-adult", group, adult, ADULT, whole, "s", 480, authors),
    ]


def _encrypted() -> list[Bar]:
    group = "Multiparty CKKS after key generation, all parties and the server together"
    varies = "CPU seconds of the same command vary by a fifth here"
    authors = "25: the authors' program on such a machine (known); 5.8: their paper, on an M2 Pro, with keys"
    library = "1.3: the authors' library on such a machine (known); 1.6: their paper, on an M2 Pro, with keys"

    def of(name: str, clients: int) -> Callable[[Measured], float]:
        return value("cpu_seconds", name=name, clients=clients)

    return [
        Bar("pf-mean-10", group, "PF-Mean, N=10", ENCRYPTED, of("PF-Mean", 10), "CPU s", 1.0, library, why=varies),
        Bar("pf-dbscan-10", group, "PF-DBSCAN, N=10", ENCRYPTED, of("PF-DBSCAN", 10), "CPU s", 3.5, authors),
        Bar(
            "pf-dbscan-20",
            group,
            "PF-DBSCAN, N=20",
            ENCRYPTED,
            of("PF-DBSCAN", 20),
            "CPU s",
            14.0,
            "18.3: their paper, on an M2 Pro, with keys",
        ),
    ]


def _nodes() -> list[Bar]:
    group = "The winner of a vote, k-hot ballots on 100 candidates, three nodes"
    everybody = "10,000 clients, all clients, nodes and the coordinator together"
    masked = "748: a masked sum of as many clients (`sum-10000`)"
    threshold = "12, and 87 MB: Threshold with its keys, on such a machine (known); their paper 5.8 with keys"
    few, ten, million = {"clients": 100}, {"clients": 10_000}, {"clients": 1_000_000}
    return [
        Bar("quorum-bytes", group, "one client's message", NODES, value("bytes_per_client", **few), "bytes", 8_000),
        Bar(
            "quorum-soft-bytes",
            group,
            "the same with soft ballots, grades from 0 to 3",
            NODES_SOFT,
            value("bytes_per_client", **few),
            "bytes",
            8_000,
        ),
        Bar("quorum-client", group, "one client's message, CPU", NODES, value("client_ms", **ten), "ms", 1.0),
        Bar("quorum-100", group, "100 clients, once processes are up", NODES, value("wall_seconds", **few), "s", 3),
        Bar("quorum-10000", group, everybody, NODES, value("cpu_seconds", **ten), "CPU s", 10, masked),
        Bar(
            "quorum-10000-signed",
            group,
            "the same, every client with an identity",
            NODES_SIGNED,
            value("cpu_seconds", **ten),
            "CPU s",
            20,
            masked,
        ),
        Bar(
            "quorum-million",
            group,
            "a million clients, one node",
            NODES_MILLION,
            value("node_cpu_seconds", **million),
            "CPU s",
            180,
        ),
        Bar(
            "quorum-million-memory",
            group,
            "the same, peak",
            NODES_MILLION,
            value("node_mb", **million),
            "MB",
            4096,
        ),
        Bar(
            "quorum-growth",
            group,
            "a million ballots, each over each of 100,000",
            NODES_MILLION,
            _per_ballot,
            "times",
            1.1,
        ),
        Bar(
            "quorum-dbscan",
            group,
            "PF-DBSCAN of 10 clients, all parties and nodes",
            NODES_CLUSTERS,
            value("cpu_seconds"),
            "CPU s",
            3.5,
            threshold,
        ),
    ]


def _others() -> list[Bar]:
    flower, surfaces, agents, tests = "On Flower", "FLoRA's surfaces", "DP-FTS-DE", "Propose-test"
    authors = "1: the authors' code, 16.35 CPU s without its objective, on such a machine (known)"
    linear = "an agent's cost among 400 agents, over that among 100 (linear: 1; a quarter for noise)"
    secagg = "1: Flower's SecAgg+, the same integers on the same nodes, in the same run"
    searches = "a search of 100 trials beside its objective of .2 s each: the rest, as a share"
    faster = "one iteration of 29 agents, times less CPU"
    iteration = "one iteration of 200 agents, M=100, P=4"
    return [
        Bar(
            "flower-50",
            flower,
            "a masked vote of 50 simulated nodes, times faster",
            FLOWER,
            value("times_faster"),
            "times",
            2.0,
            secagg,
            "higher",
        ),
        Bar("flower-trips", flower, "trips of that vote, keys included", FLOWER, value("trips"), "trips", 4),
        Bar("surfaces", surfaces, "four surfaces, 100 x 100 trials", SURFACES, value("seconds", clients=100), "s", 20),
        Bar("search", surfaces, searches, SURFACES, value("overhead", name="adaptive search"), "of it", 0.15),
        Bar("fts-iteration", agents, iteration, AGENTS, value("seconds", agents=200), "s", 0.1),
        Bar("fts-published", agents, faster, AGENTS, value("ratio", agents=29), "times", 20, authors, "higher"),
        Bar("fts-linear", agents, linear, AGENTS, _per_agent, "times", 1.25),
        Bar("propose", tests, "100,000 runs over 100 candidates, the slowest setting", PROPOSE, _slowest, "s", 60),
    ]


BARS = [*_starts(), *_sums(), *_votes(), *_training(), *_encrypted(), *_nodes(), *_others()]
