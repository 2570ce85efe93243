"""`hushtune bench`, the papers' experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtune.cli.options import DATA, SPLITS, Jobs, Json, among, read_counts, read_epsilons, read_numbers

experiments_app = typer.Typer()


@experiments_app.command("dp-hype-simulation")
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


@experiments_app.command("dp-hype")
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
        for count in read_counts("clients", clients)
    ]
    epsilons = read_epsilons(epsilon)
    experiment = dp_hype.Experiment(settings, epsilons, integer("runs", runs, 1), compare, out, jobs)
    found = show.experiment(dp_hype.rows(experiment, Progress(quiet=json)), as_json=json)
    for path in (*dp_hype_figures.draw(found, plots or out), dp_hype_tables.write(found, out)):
        if not json:
            print(f"wrote {path}")


@experiments_app.command("flora")
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
    counts = read_counts("trials", trials or ("5,10,20,40,60,80,100" if paper else "5,10,20,40"))
    sends = read_counts("send", send or ("5,10,20,40,60,80" if paper else "5,10,20"))
    epsilons, spreads, draws = read_epsilons(epsilon), read_numbers("spread", spread), integer("draws", draws, 1)
    found = cells(
        data.split(","),
        models.split(","),
        read_counts("parties", parties if not paper else "3,6,10,25,50,100"),
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


@experiments_app.command("privtuna")
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


@experiments_app.command("fts")
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

    sizes = read_counts("agents", agents) if agents is not None else []
    experiment = fts.Experiment(task, sizes, seeds, out, jobs, read_epsilons(epsilon), quick, ablate)
    found = show.rows(fts.rows(experiment, Progress(quiet=json)), as_json=json, hidden=("curve", "curve error"))
    for path in fts_figures.write(found, plots or out):
        if not json:
            print(f"wrote {path}")


@experiments_app.command("propose")
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


@experiments_app.command("central")
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
        [name.strip() for name in data.split(",")], read_epsilons(epsilon), seeds, out, jobs, quick
    )
    found = show.rows(central.rows(experiment, Progress(quiet=json)), as_json=json)
    for path in central_figures.write(experiment, found, plots or out):
        if not json:
            print(f"wrote {path}")
