"""The command that compares what choices cost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from experiments import show
from experiments.options import Jobs, read_counts
from hushtune.cli.options import Json

app = typer.Typer()


@app.command("choice")
def choice(
    data: Annotated[
        str, typer.Option(help="Data sets, with commas.")
    ] = "adult,mnist,electricity,digits,eeg,cifar10,emnist",
    clients: Annotated[str, typer.Option(help="Numbers of clients, e.g. 50,100,250.")] = "100",
    split: Annotated[str, typer.Option(help="Splits, e.g. iid,dirichlet:0.5.")] = "iid,dirichlet:0.5",
    epsilon: Annotated[str, typer.Option(help="inf: no noise.")] = "0.05,0.1,0.25,0.5,1,3,inf",
    draws: Annotated[int, typer.Option(help="Draws of the noise.")] = 200,
    every: Annotated[bool, typer.Option("--all", help="All ballots, priors, and what clients may do first.")] = False,
    out: Annotated[Path, typer.Option(help="Where tables go, and what is not kept is computed.")] = Path("runs/choice"),
    plot: Annotated[Path | None, typer.Option(help="Write the picture to this SVG file.")] = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """The same choice for less: accuracy by epsilon, as published, sum opened, winner, winner with a public prior."""
    import hushtune.client.objectives.neural  # noqa: F401 (says what to install, if PyTorch is missing)
    from experiments.choice import figure, tables
    from experiments.choice.experiment import Experiment, rows
    from experiments.choice.federations import cases
    from experiments.epsilons import read_epsilons
    from hushtune.core.checks import integer
    from hushtune.core.errors import SettingError
    from hushtune.core.observer import bars_unless
    from hushtune.data.splits import listed

    epsilons = read_epsilons(epsilon)
    if plot is not None and len({one for one in epsilons if math.isfinite(one)}) < 2:
        raise SettingError(f"--plot needs at least two finite values of --epsilon, but got {epsilon}")
    federations = cases(data.split(","), read_counts("clients", clients, 2), listed(split), 0)
    wanted = Experiment(federations, epsilons, integer("draws", draws, 1), every, out, jobs)
    found = show.rows(rows(wanted, bars_unless(json)), as_json=json)
    written = [tables.write(found, out)]
    if plot is not None:
        written.append(figure.draw(found, plot))
    show.files(written, as_json=json)
