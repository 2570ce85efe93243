"""Commands of the experiment on records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments import show
from experiments.options import Jobs, read_counts
from hushtune.cli.options import Json

app = typer.Typer()


@app.command("records")
def records(
    data: Annotated[str, typer.Option(help="Data sets, with commas.")] = "adult,eeg,electricity,pc3,digits,mnist",
    clients: Annotated[str, typer.Option(help="Numbers of clients.")] = "5,10,20",
    split: Annotated[str, typer.Option(help="Splits, e.g. iid,dirichlet:0.5.")] = "iid,dirichlet:0.5",
    voters: Annotated[
        str, typer.Option(help="Parts of each client's rows, beside the usual number; those of 8 rows or more.")
    ] = "2,5,10,20,50,100,200",
    epsilon: Annotated[str, typer.Option(help="Per record; inf: no noise.")] = "0.1,0.25,0.5,1,3,inf",
    draws: Annotated[int, typer.Option(help="Draws of the noise of sums; four times as many of winners.")] = 100,
    seeds: Annotated[str, typer.Option(help="Of data, split and order of rows.")] = "0,1,2",
    full_steps: Annotated[
        bool, typer.Option("--full-steps", help="Parts take as many steps as all of a client's rows would.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where losses are kept, and the tables.")] = Path("runs/records"),
    measured: Annotated[Path, typer.Option(help="Where rows are kept; what is there is not measured again.")] = Path(
        __file__
    ).parent
    / "measured",
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Few large clients, whose records are protected: accuracy of the choice by parts and epsilon."""
    from experiments.epsilons import read_epsilons
    from experiments.records import tables
    from experiments.records.experiment import Experiment, rows
    from experiments.records.tasks import Case
    from hushtune.core.checks import integer
    from hushtune.core.observer import bars_unless
    from hushtune.data.splits import listed

    federations = [
        Case(name, count, how, seed=seed)
        for name in data.split(",")
        for seed in read_counts("seeds", seeds, low=0)
        for how in listed(split)
        for count in read_counts("clients", clients)
    ]
    epsilons, parts = read_epsilons(epsilon), read_counts("voters", voters)
    draws = integer("draws", draws, 1)
    wanted = Experiment(federations, parts, epsilons, draws, [full_steps], out, measured, jobs)
    found = show.rows(rows(wanted, bars_unless(json)), as_json=json)
    name = "records-full-steps" if full_steps else "records"
    show.files(tables.write(found, out, name), as_json=json)
