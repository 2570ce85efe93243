"""`hushtune bench`: what the documentation's figures are made with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtune.cli.options import DATA, SPLITS, Jobs, Json, among

bench_app = typer.Typer(help="Measure.", no_args_is_help=True)


def _numbers(name: str, text: str) -> list[float]:
    from hushtune.errors import SettingError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise SettingError(f"{name} must be numbers such as 10,100, but got {text!r}") from None


def _counts(name: str, text: str, low: int = 1) -> list[int]:
    from hushtune.checks import integer
    from hushtune.errors import SettingError

    found = _numbers(name, text)
    if not all(number.is_integer() for number in found):
        raise SettingError(f"{name} must be integers such as 10,100, but got {text!r}")
    return [integer(name, int(number), low) for number in found]


def _epsilons(text: str) -> list[float]:
    """Refuses, before anything is measured, what no guarantee can have."""
    from hushtune.bench import privacy_of

    found = _numbers("epsilon", text)
    for epsilon in found:
        privacy_of(epsilon)
    return found


@bench_app.command("bars")
def bench_bars(
    full: Annotated[bool, typer.Option("--full", help="Also what takes long: 20 minutes more on 2 cores.")] = False,
    only: Annotated[str | None, typer.Option(help="Names of bars, with commas: only these are measured.")] = None,
    out: Annotated[
        Path, typer.Option(help="The page; what it says of other bars is kept. JSON goes beside it.")
    ] = Path("runs/bench/performance.md"),
    json: Json = False,
) -> None:
    """Every speed bar of the project, measured: a page with figures, bars, references, and what missed its bar."""
    from hushtune.bench import bars, bars_page
    from hushtune.bench.bars_table import BARS
    from hushtune.cli import show
    from hushtune.progress import Progress

    folder, before = Path("runs/bench"), bars.read(out.with_suffix(".json"))
    commands = bars.chosen(BARS, full, only.split(",") if only else [])
    found = []
    for row in bars.measure(BARS, commands, folder, Progress(quiet=json)):
        found.append(row)
        if not json:
            print(bars_page.line(row), flush=True)
    whole = bars.merged(BARS, found, before, folder)
    bars_page.write(whole, out)
    bars.finished(commands, folder)
    if json:
        show.rows(whole, as_json=True)
    else:
        print(f"{bars_page.summary(whole)}\nwrote {out}")


@bench_app.command("basics")
def bench_basics(
    voters: Annotated[int, typer.Option(help="Of the simulated vote.")] = 1_000_000,
    repeats: Annotated[int, typer.Option(help="Starts of each program.")] = 5,
    json: Json = False,
) -> None:
    """Start-up, noise shares, a million simulated voters, trips of a masked sum, trials that are kept, a report."""
    from hushtune.bench import basics
    from hushtune.checks import integer
    from hushtune.cli import show
    from hushtune.progress import Progress

    found = basics.rows(integer("voters", voters, 1), integer("repeats", repeats, 1), Progress(quiet=json))
    show.rows(found, as_json=json)


@bench_app.command("secure-sum")
def bench_secure_sum(
    clients: Annotated[str, typer.Option(help="Numbers of clients, e.g. 10,100,1000.")] = "10,100",
    neighbours: Annotated[int | None, typer.Option(help="INSECURE: fewer neighbours, to compare costs.")] = None,
    length: Annotated[int, typer.Option(help="Length of the vectors.")] = 100,
    plot: Annotated[Path | None, typer.Option(help="Write a plot to this SVG file.")] = None,
    json: Json = False,
) -> None:
    """CPU seconds of a masked sum, all clients and the server together."""
    from hushtune.bench import secure_sum
    from hushtune.checks import integer
    from hushtune.cli import show
    from hushtune.progress import Progress

    counts, length = _counts("clients", clients, 2), integer("length", length, 1)
    rows = show.rows(secure_sum.rows(counts, neighbours, length, Progress(quiet=json)), as_json=json)
    if plot is not None:
        secure_sum.draw(rows, plot)


@bench_app.command("dp-hype-simulation")
def bench_dp_hype_simulation(
    repetitions: Annotated[int, typer.Option(help="Simulated votes per setting.")] = 5_000,
    seed: Annotated[int, typer.Option(help="Of the simulation.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write the figure to this SVG file.")] = None,
    json: Json = False,
) -> None:
    """DP-HYPE's Figure 2: the odds of a good choice, simulated, beside the bound of Theorem V.1."""
    from hushtune.bench import dp_hype_simulation
    from hushtune.checks import integer
    from hushtune.cli import show
    from hushtune.progress import Progress

    integer("repetitions", repetitions, 1)
    integer("seed", seed, 0)
    rows = show.rows(dp_hype_simulation.rows(repetitions, seed, Progress(quiet=json)), as_json=json)
    if plot is not None:
        dp_hype_simulation.draw(rows, plot)


@bench_app.command("speed")
def bench_speed(
    rows: Annotated[int, typer.Option(help="Rows of data that one client has.")] = 490,
    json: Json = False,
) -> None:
    """Batched scoring against a plain per-candidate PyTorch loop, in the same run."""
    import hushtune.objectives.neural  # noqa: F401 (says what to install, if PyTorch is missing)
    from hushtune.bench import speed
    from hushtune.checks import integer
    from hushtune.cli import show
    from hushtune.progress import Progress

    show.rows(speed.rows(integer("rows", rows, 10), Progress(quiet=json)), as_json=json)


@bench_app.command("dp-hype")
def bench_dp_hype(
    data: Annotated[
        str,
        typer.Option(
            help="mnist, cifar10, adult or digits; several with commas.", autocompletion=among(DATA, several=True)
        ),
    ] = "adult",
    clients: Annotated[str, typer.Option(help="Numbers of clients, e.g. 50,100,250.")] = "100",
    split: Annotated[
        str, typer.Option(help="Splits, e.g. iid,dirichlet:30,5,0.5.", autocompletion=among(SPLITS, several=True))
    ] = "iid",
    epsilon: Annotated[str, typer.Option(help="inf: no noise.")] = "0.1,0.25,0.5,1,3,inf",
    runs: Annotated[int, typer.Option(help="Draws of the noise.")] = 20,
    rows: Annotated[int | None, typer.Option(help="Training rows in all. Default: all there are.")] = None,
    seed: Annotated[int, typer.Option(help="Of data, split, weights and mini-batches.")] = 0,
    compare: Annotated[bool, typer.Option("--compare", help="All ballots and decodings too.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="20 clients, 2,000 rows, 5 runs: a look, no result.")] = False,
    out: Annotated[Path, typer.Option(help="Where scores are kept; the same folder resumes.")] = Path("runs/dp-hype"),
    plots: Annotated[Path | None, typer.Option(help="Folder for the figures. Default: that of --out.")] = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """DP-HYPE's experiments: accuracy of the privately chosen config, beside OPT, guessing and ablations."""
    import hushtune.objectives.neural  # noqa: F401 (says what to install, if PyTorch is missing)
    from hushtune.bench import dp_hype, dp_hype_figures, dp_hype_tables
    from hushtune.bench.dp_hype_tasks import Setting
    from hushtune.checks import integer
    from hushtune.cli import show
    from hushtune.data.splits import listed
    from hushtune.progress import Progress

    if quick:
        clients, runs, epsilon = "20", 5, "0.5,3,inf"
        rows = (1_400 if "digits" in data else 2_000) if rows is None else rows
    settings = [
        Setting(name, count, how, rows, seed)
        for name in data.split(",")
        for how in listed(split)
        for count in _counts("clients", clients)
    ]
    epsilons = _epsilons(epsilon)
    experiment = dp_hype.Experiment(settings, epsilons, integer("runs", runs, 1), compare, out, jobs)
    found = show.experiment(dp_hype.rows(experiment, Progress(quiet=json)), as_json=json)
    for path in (*dp_hype_figures.draw(found, plots or out), dp_hype_tables.write(found, out)):
        if not json:
            print(f"wrote {path}")


@bench_app.command("flora")
def bench_flora(
    data: Annotated[
        str, typer.Option(help="Tables, or mnist:imb1, mnist:imb2 (skewed, 4 parties), digits; several with commas.")
    ] = "eeg,electricity,heart,oil_spill,pollen,sonar,mnist:imb1,mnist:imb2",
    models: Annotated[
        str,
        typer.Option(
            help="hgb, svm, mlp; several with commas.", autocompletion=among(["hgb", "svm", "mlp"], several=True)
        ),
    ] = "hgb,svm,mlp",
    parties: Annotated[str, typer.Option(help="Numbers of parties, e.g. 3,6,10,25,50,100.")] = "3,10,50",
    rows: Annotated[int | None, typer.Option(help="Pooled rows at the most. Default: 2,000; with --paper all.")] = None,
    folds: Annotated[int | None, typer.Option(help="Of the cross-validation. Default: 3; with --paper 10.")] = None,
    trials: Annotated[str | None, typer.Option(help="Of every search. Default: 5,10,20,40; --paper: to 100.")] = None,
    send: Annotated[str | None, typer.Option(help="Pairs sent. Default: 5,10,20; with --paper: to 80.")] = None,
    epsilon: Annotated[str, typer.Option(help="Of the private surface; inf: the exact sum.")] = "1,3,inf",
    spread: Annotated[str, typer.Option(help="To which the private surface's contributions are clipped.")] = "0.02",
    draws: Annotated[int, typer.Option(help="Draws of the noise.")] = 10,
    seeds: Annotated[
        int, typer.Option(help="Seeds of split, folds and searches, for the smallest number of parties.")
    ] = 2,
    paper: Annotated[bool, typer.Option("--paper", help="As in the paper: many hours for each data set.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="digits, 300 rows, 8 trials: a look, no result.")] = False,
    out: Annotated[Path, typer.Option(help="Where searches are kept; the same folder resumes.")] = Path("runs/flora"),
    plots: Annotated[Path | None, typer.Option(help="Folder for the figures. Default: that of --out.")] = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """FLoRA's experiments: relative regret of its four surfaces, and of the private one."""
    from hushtune.bench import flora, flora_figures, flora_tables
    from hushtune.bench.flora_tasks import cells
    from hushtune.checks import integer
    from hushtune.cli import show
    from hushtune.progress import Progress

    if quick:
        data, models, parties, rows, trials, send, seeds, draws = "digits", "svm", "3", rows or 300, "4,8", "4", 1, 2
    counts = _counts("trials", trials or ("5,10,20,40,60,80,100" if paper else "5,10,20,40"))
    sends = _counts("send", send or ("5,10,20,40,60,80" if paper else "5,10,20"))
    epsilons, spreads, draws = _epsilons(epsilon), _numbers("spread", spread), integer("draws", draws, 1)
    found = cells(
        data.split(","),
        models.split(","),
        _counts("parties", parties if not paper else "3,6,10,25,50,100"),
        rows=integer("rows", rows, 1) if rows is not None else None if paper else 2_000,
        folds=integer("folds", folds, 2) if folds is not None else 10 if paper else 3,
        trials=max(counts),
        seeds=integer("seeds", seeds, 1),
        fewest=100 if paper else 40,
    )
    experiment = flora.Experiment(found, counts, sends, epsilons, spreads, draws, out, jobs)
    shown = show.rows(flora.rows(experiment, Progress(quiet=json)), as_json=json)
    for path in (flora_tables.write(shown, out), flora_figures.draw(shown, plots or out)):
        if not json:
            print(f"wrote {path}")


@bench_app.command("privtuna")
def bench_privtuna(
    replay: Annotated[bool, typer.Option("--replay", help="From the study's published searches.")] = False,
    train: Annotated[bool, typer.Option("--train", help="With searches and federated training of our own.")] = False,
    data: Annotated[str, typer.Option(help="--train: mnist, emnist, svhn, digits; with commas.")] = "mnist,emnist,svhn",
    rows: Annotated[int, typer.Option(help="--train: training rows of all clients together.")] = 5_000,
    client_lr: Annotated[float, typer.Option(help="--train: of clients in federated training.")] = 0.01,
    seeds: Annotated[int, typer.Option(help="Of data, split, weights; --replay: of ties and forests.")] = 1,
    every: Annotated[bool, typer.Option("--every", help="--train: all degrees of skew, not one of each.")] = False,
    paper: Annotated[bool, typer.Option("--paper", help="--train: full size and networks A and B: many days.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="--train: digits, 3 epochs and rounds: no result.")] = False,
    done: Annotated[bool, typer.Option("--done", help="--train: only federations that the folder has.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="--replay: file for the tables. --train: folder; the same one resumes (runs/privtuna)."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="--replay: SVG file. --train: folder for the figures.")] = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """PrivTuna's measurement study: how good are configs that are combined from clients' searches?"""
    from hushtune.errors import SettingError

    if replay == train:
        raise SettingError(f"choose one of --replay and --train, but got {'both' if replay else 'neither'}")
    if replay:
        _privtuna_replay(seeds, out, plot, jobs, json)
        return
    import hushtune.objectives.neural  # noqa: F401 (says what to install, if PyTorch is missing)
    from hushtune.bench import privtuna, privtuna_figures, privtuna_tables
    from hushtune.bench.privtuna_tasks import Size
    from hushtune.checks import integer
    from hushtune.cli import show
    from hushtune.progress import Progress

    size = Size(None, batch=8, paper=True) if paper else Size(integer("rows", rows, 500), client_lr=client_lr)
    if quick:
        data, size = "digits", Size(500, epochs=3, rounds=3)
    found = privtuna.settings(data.split(","), integer("seeds", seeds, 1), size, every or paper)
    folder = Path("runs/privtuna") if out is None else out
    found = [setting for setting in found if not done or setting.done(folder)]
    shown = show.rows(privtuna.rows(privtuna.Experiment(found, folder, jobs), Progress(quiet=json)), as_json=json)
    for path in (*privtuna_figures.draw(shown, plot or folder), privtuna_tables.write(shown, folder)):
        if not json:
            print(f"wrote {path}")


def _privtuna_replay(seeds: int, out: Path | None, plot: Path | None, jobs: int | None, json: bool) -> None:
    from hushtune.bench import privtuna_replay, privtuna_replay_tables
    from hushtune.checks import integer
    from hushtune.cli import show
    from hushtune.progress import Progress

    seeds = integer("seeds", seeds, 1, 100)
    shown = show.rows(privtuna_replay.rows(privtuna_replay.load(), Progress(quiet=json), jobs, seeds), as_json=json)
    if out is not None:
        privtuna_replay_tables.write(shown, out)
    if plot is not None:
        privtuna_replay_tables.draw(shown, plot)


@bench_app.command("surfaces")
def bench_surfaces(
    clients: Annotated[int, typer.Option(help="How many.")] = 100,
    trials: Annotated[int, typer.Option(help="Of each.")] = 100,
    json: Json = False,
) -> None:
    """Seconds for FLoRA's four surfaces and their minimisers, and what a search costs beside its objective."""
    from hushtune.bench import surfaces
    from hushtune.checks import integer
    from hushtune.cli import show

    show.rows(surfaces.rows(integer("clients", clients, 1), integer("trials", trials, 2)), as_json=json)


@bench_app.command("flower")
def bench_flower(
    nodes: Annotated[str, typer.Option(help="Numbers of simulated nodes, e.g. 10,50,100.")] = "10,50,100",
    length: Annotated[int, typer.Option(help="Number of candidates.")] = 100,
    repeats: Annotated[int, typer.Option(help="Times each is measured, in turns.")] = 5,
    json: Json = False,
) -> None:
    """A masked vote on Flower's simulation engine, beside Flower's own SecAgg+."""
    import hushtune.flower  # noqa: F401 (says what to install, if Flower is missing)
    from hushtune.bench import flower
    from hushtune.cli import show
    from hushtune.progress import Progress

    show.rows(flower.rows(_counts("nodes", nodes), length, repeats, Progress(quiet=json)), as_json=json)


@bench_app.command("mhe")
def bench_mhe(
    clients: Annotated[str, typer.Option(help="Numbers of clients, e.g. 10,20.")] = "10,20",
    json: Json = False,
) -> None:
    """PrivTuna's Tables II and III: CPU seconds of multiparty CKKS, all parties and the server together."""
    from hushtune.bench import mhe
    from hushtune.cli import show
    from hushtune.mhe.environment import interpreter
    from hushtune.progress import Progress

    interpreter()  # says what to set up, if OpenFHE is missing
    show.rows(mhe.rows(_counts("clients", clients), Progress(quiet=json)), as_json=json)


@bench_app.command("fts")
def bench_fts(
    task: Annotated[
        str,
        typer.Option(
            help="synthetic, landmine, digits, har or emnist.",
            autocompletion=among(["synthetic", "landmine", "digits", "har", "emnist"]),
        ),
    ] = "synthetic",
    agents: Annotated[
        str | None, typer.Option(help="Sizes of the federation, e.g. 200,800,3200. Default: the task's own.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Of functions, initial points and draws.")] = 20,
    epsilon: Annotated[str, typer.Option(help="For the default form of Thompson.")] = "7,3",
    quick: Annotated[bool, typer.Option("--quick", help="A few arms only: a look, no result.")] = False,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Only the default form, and what becomes of it when one thing is changed.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where curves and tables are kept; the same folder resumes.")] = Path(
        "runs/fts"
    ),
    plots: Annotated[Path | None, typer.Option(help="Folder for the figures. Default: that of --out.")] = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """DP-FTS-DE's experiments: sharing with and without noise, beside tuning alone and beside noise alone."""
    from hushtune.bench import fts, fts_figures
    from hushtune.cli import show
    from hushtune.progress import Progress

    sizes = _counts("agents", agents) if agents is not None else []
    experiment = fts.Experiment(task, sizes, seeds, out, jobs, _epsilons(epsilon), quick, ablate)
    found = show.rows(fts.rows(experiment, Progress(quiet=json)), as_json=json, hidden=("curve", "curve error"))
    for path in fts_figures.write(found, plots or out):
        if not json:
            print(f"wrote {path}")


@bench_app.command("fts-speed")
def bench_fts_speed(
    agents: Annotated[str, typer.Option(help="Sizes of the federation.")] = "29,50,100,200,400",
    json: Json = False,
) -> None:
    """Seconds of one iteration of DP-FTS-DE, all agents and the server together, objectives and fits excluded."""
    from hushtune.bench import fts_speed
    from hushtune.cli import show

    show.rows(fts_speed.rows(_counts("agents", agents)), as_json=json)


@bench_app.command("propose")
def bench_propose(
    runs: Annotated[int, typer.Option(help="Simulated runs of each setting.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the simulation.")] = 0,
    plots: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
    json: Json = False,
) -> None:
    """Propose-test's Figures 1 and 2, its choice by partitions, its bound on tests, and seconds; all simulated."""
    from hushtune.bench import propose
    from hushtune.checks import integer
    from hushtune.cli import show

    show.rows(propose.rows(integer("runs", runs, 100, 10_000_000), integer("seed", seed, 0)), as_json=json)
    for path in propose.draw(plots, seed) if plots is not None else ():
        if not json:
            print(f"wrote {path}")


@bench_app.command("central")
def bench_central(
    data: Annotated[
        str,
        typer.Option(
            help="digits, adult, mnist, or several.", autocompletion=among(["digits", "adult", "mnist"], several=True)
        ),
    ] = "digits",
    epsilon: Annotated[str, typer.Option(help="Of choice and training together.")] = "1,3,8",
    seeds: Annotated[int, typer.Option(help="Of splits, parts, noise and choices.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="Few epochs and candidates: a look, no result.")] = False,
    out: Annotated[Path, typer.Option(help="Where outcomes are kept; the same folder resumes.")] = Path("runs/central"),
    plots: Annotated[Path | None, typer.Option(help="Folder for figures and tables. Default: that of --out.")] = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """One owner's private model, by every way to choose its config: accuracy against the total epsilon."""
    import hushtune.training.dpsgd  # noqa: F401 (says what to install, if Opacus is missing)
    from hushtune.bench import central, central_figures
    from hushtune.cli import show
    from hushtune.progress import Progress

    experiment = central.Experiment(
        [name.strip() for name in data.split(",")], _epsilons(epsilon), seeds, out, jobs, quick
    )
    found = show.rows(central.rows(experiment, Progress(quiet=json)), as_json=json)
    for path in central_figures.write(experiment, found, plots or out):
        if not json:
            print(f"wrote {path}")
