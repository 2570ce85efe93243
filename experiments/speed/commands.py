"""`hushtune bench`: what the documentation's figures are made with. The papers' experiments are in `experiments`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtune.cli.experiments import experiments_app
from hushtune.cli.options import Json, read_counts

bench_app = typer.Typer(help="Measure.", no_args_is_help=True)
bench_app.add_typer(experiments_app)


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

    counts, length = read_counts("clients", clients, 2), integer("length", length, 1)
    rows = show.rows(secure_sum.rows(counts, neighbours, length, Progress(quiet=json)), as_json=json)
    if plot is not None:
        secure_sum.draw(rows, plot)


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

    show.rows(flower.rows(read_counts("nodes", nodes), length, repeats, Progress(quiet=json)), as_json=json)


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
    show.rows(mhe.rows(read_counts("clients", clients), Progress(quiet=json)), as_json=json)


@bench_app.command("fts-speed")
def bench_fts_speed(
    agents: Annotated[str, typer.Option(help="Sizes of the federation.")] = "29,50,100,200,400",
    json: Json = False,
) -> None:
    """Seconds of one iteration of DP-FTS-DE, all agents and the server together, objectives and fits excluded."""
    from hushtune.bench import fts_speed
    from hushtune.cli import show

    show.rows(fts_speed.rows(read_counts("agents", agents)), as_json=json)
