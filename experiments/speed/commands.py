"""Commands that measure how fast things are, and all of them in one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments import show
from experiments.options import read_counts
from hushtune.cli.options import Json

app = typer.Typer()


@app.command("bars")
def every_bar(
    full: Annotated[bool, typer.Option("--full", help="Also what takes long: 20 minutes more on 2 cores.")] = False,
    only: Annotated[str | None, typer.Option(help="Names of bars, with commas: only these are measured.")] = None,
    out: Annotated[
        Path, typer.Option(help="The page; what it says of other bars is kept. JSON goes beside it.")
    ] = Path("runs/bench/performance.md"),
    json: Json = False,
) -> None:
    """Every speed bar of the project, measured: a page with figures, bars, references, and what missed its bar."""
    from experiments.speed import bars, bars_page
    from experiments.speed.bars_table import BARS
    from hushtune.core.observer import bars_unless

    folder, before = Path("runs/bench"), bars.read(out.with_suffix(".json"))
    commands = bars.chosen(BARS, full, only.split(",") if only else [])
    found = []
    for row in bars.measure(BARS, commands, folder, bars_unless(json)):
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


@app.command("basics")
def basics(
    voters: Annotated[int, typer.Option(help="Of the simulated vote.")] = 1_000_000,
    repeats: Annotated[int, typer.Option(help="Starts of each program.")] = 5,
    json: Json = False,
) -> None:
    """Start-up, noise shares, a million simulated voters, trips of a masked sum, trials that are kept, a report."""
    from experiments.speed.basics import rows
    from hushtune.core.checks import integer
    from hushtune.core.observer import bars_unless

    found = rows(integer("voters", voters, 1), integer("repeats", repeats, 1), bars_unless(json))
    show.rows(found, as_json=json)


@app.command("secure-sum")
def secure_sum(
    clients: Annotated[str, typer.Option(help="Numbers of clients, e.g. 10,100,1000.")] = "10,100",
    degree: Annotated[int | None, typer.Option(help="INSECURE: fewer peers, to compare costs.")] = None,
    length: Annotated[int, typer.Option(help="Length of the vectors.")] = 100,
    plot: Annotated[Path | None, typer.Option(help="Write a plot to this SVG file.")] = None,
    json: Json = False,
) -> None:
    """CPU seconds of a masked sum, all clients and the server together."""
    from experiments.speed.secure_sum import draw, rows
    from hushtune.core.checks import integer
    from hushtune.core.observer import bars_unless

    counts, length = read_counts("clients", clients, 2), integer("length", length, 1)
    found = show.rows(rows(counts, degree, length, bars_unless(json)), as_json=json)
    if plot is not None:
        draw(found, plot)


@app.command("speed")
def networks(
    rows: Annotated[int, typer.Option(help="Rows of data that one client has.")] = 490,
    json: Json = False,
) -> None:
    """Batched scoring against a plain per-candidate PyTorch loop, in the same run."""
    import hushtune.client.objectives.neural  # noqa: F401 (says what to install, if PyTorch is missing)
    from experiments.speed.networks import rows as compared
    from hushtune.core.checks import integer
    from hushtune.core.observer import bars_unless

    show.rows(compared(integer("rows", rows, 10), bars_unless(json)), as_json=json)


@app.command("surfaces")
def surfaces(
    clients: Annotated[int, typer.Option(help="How many.")] = 100,
    trials: Annotated[int, typer.Option(help="Of each.")] = 100,
    json: Json = False,
) -> None:
    """Seconds for FLoRA's four surfaces and their minimisers, and what a search costs beside its objective."""
    from experiments.speed.surfaces import rows
    from hushtune.core.checks import integer

    show.rows(rows(integer("clients", clients, 1), integer("trials", trials, 2)), as_json=json)


@app.command("flower")
def flower(
    nodes: Annotated[str, typer.Option(help="Numbers of simulated nodes, e.g. 10,50,100.")] = "10,50,100",
    length: Annotated[int, typer.Option(help="Number of candidates.")] = 100,
    repeats: Annotated[int, typer.Option(help="Times each is measured, in turns.")] = 5,
    json: Json = False,
) -> None:
    """A masked vote on Flower's simulation engine, beside Flower's own SecAgg+."""
    import hushtune.flower  # noqa: F401 (says what to install, if Flower is missing)
    from experiments.speed.flower import rows
    from hushtune.core.observer import bars_unless

    show.rows(rows(read_counts("nodes", nodes), length, repeats, bars_unless(json)), as_json=json)


@app.command("mhe")
def mhe(
    clients: Annotated[str, typer.Option(help="Numbers of clients, e.g. 10,20.")] = "10,20",
    json: Json = False,
) -> None:
    """PrivTuna's Tables II and III: CPU seconds of multiparty CKKS, all parties and the server together."""
    from experiments.speed.mhe import rows
    from hushtune.core.observer import bars_unless
    from hushtune.seals.threshold.environment import interpreter

    interpreter()  # says what to set up, if OpenFHE is missing
    show.rows(rows(read_counts("clients", clients), bars_unless(json)), as_json=json)


@app.command("fts-speed")
def fts(
    agents: Annotated[str, typer.Option(help="Sizes of the federation.")] = "29,50,100,200,400",
    json: Json = False,
) -> None:
    """Seconds of one iteration of DP-FTS-DE, all agents and the server together, objectives and fits excluded."""
    from experiments.speed.fts import rows

    show.rows(rows(read_counts("agents", agents)), as_json=json)
