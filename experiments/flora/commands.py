"""The command of FLoRA's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments import show
from experiments.options import Jobs, read_counts, read_numbers
from hushtune.cli.options import Json

app = typer.Typer()


@app.command("flora")
def flora(
    data: Annotated[
        str, typer.Option(help="Tables, or mnist:imb1, mnist:imb2 (skewed, 4 parties), digits; several with commas.")
    ] = "eeg,electricity,heart,oil_spill,pollen,sonar,mnist:imb1,mnist:imb2",
    models: Annotated[str, typer.Option(help="hgb, svm, mlp; several with commas.")] = "hgb,svm,mlp",
    parties: Annotated[str, typer.Option(help="Numbers of parties, e.g. 3,6,10,25,50,100.")] = "3,10,50",
    rows: Annotated[int | None, typer.Option(help="Pooled rows at most. Default: 2,000; with --paper all.")] = None,
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
    from experiments.epsilons import read_epsilons
    from experiments.flora import experiment, figures, tables
    from experiments.flora.tasks import cells
    from hushtune.core.checks import integer
    from hushtune.core.observer import bars_unless

    if quick:
        data, models, parties, rows, trials, send, seeds, draws = "digits", "svm", "3", rows or 300, "4,8", "4", 1, 2
    counts = read_counts("trials", trials or ("5,10,20,40,60,80,100" if paper else "5,10,20,40"))
    sends = read_counts("send", send or ("5,10,20,40,60,80" if paper else "5,10,20"))
    epsilons, spreads, draws = read_epsilons(epsilon), read_numbers("spread", spread), integer("draws", draws, 1)
    chosen = cells(
        data.split(","),
        models.split(","),
        read_counts("parties", parties if not paper else "3,6,10,25,50,100"),
        rows=integer("rows", rows, 1) if rows is not None else None if paper else 2_000,
        folds=integer("folds", folds, 2) if folds is not None else 10 if paper else 3,
        trials=max(counts),
        seeds=integer("seeds", seeds, 1),
        fewest=100 if paper else 40,
    )
    wanted = experiment.Experiment(chosen, counts, sends, epsilons, spreads, draws, out, jobs)
    found = show.rows(experiment.rows(wanted, bars_unless(json)), as_json=json)
    show.files([tables.write(found, out), figures.draw(found, plots or out)], as_json=json)
