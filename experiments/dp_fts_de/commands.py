"""The command of DP-FTS-DE's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments import show
from experiments.options import Jobs, read_counts
from hushtune.cli.options import Json

app = typer.Typer()


@app.command("fts")
def fts(
    task: Annotated[str, typer.Option(help="synthetic, landmine, digits, har or emnist.")] = "synthetic",
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
    from experiments.dp_fts_de import experiment, figures
    from experiments.epsilons import read_epsilons
    from hushtune.core.observer import bars_unless

    sizes = read_counts("agents", agents) if agents is not None else []
    wanted = experiment.Experiment(task, sizes, seeds, out, jobs, read_epsilons(epsilon), quick, ablate)
    rows = experiment.rows(wanted, bars_unless(json))
    found = show.rows(rows, as_json=json, hidden=("curve", "curve error"))
    show.files(figures.write(found, plots or out), as_json=json)
