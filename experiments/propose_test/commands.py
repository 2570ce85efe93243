"""Commands of propose-test's experiments: its simulations, and central tuning, which trains privately."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments import show
from experiments.options import Jobs
from hushtune.cli.options import Json

app = typer.Typer()


@app.command("propose")
def propose(
    runs: Annotated[int, typer.Option(help="Simulated runs of each setting.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the simulation.")] = 0,
    order: Annotated[
        str, typer.Option(help="In which candidates are visited: random, or index, as published (first table).")
    ] = "random",
    plots: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
    json: Json = False,
) -> None:
    """Propose-test's Figures 1 and 2, its choice by partitions, its bound on tests, and seconds; all simulated."""
    from experiments.propose_test.propose import draw, rows
    from hushtune.core.checks import integer

    show.rows(rows(integer("runs", runs, 100, 10_000_000), integer("seed", seed, 0), order), as_json=json)
    if plots is not None:
        show.files(draw(plots, seed), as_json=json)


@app.command("central")
def central(
    data: Annotated[str, typer.Option(help="digits, adult, mnist, or several.")] = "digits",
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
    from experiments.epsilons import read_epsilons
    from experiments.propose_test.central import Experiment, rows
    from experiments.propose_test.central_figures import write
    from hushtune.core.observer import bars_unless

    names = [name.strip() for name in data.split(",")]
    wanted = Experiment(names, read_epsilons(epsilon), seeds, out, jobs, quick)
    found = show.rows(rows(wanted, bars_unless(json)), as_json=json)
    show.files(write(wanted, found, plots or out), as_json=json)
