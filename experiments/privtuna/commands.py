"""The command of PrivTuna's measurement study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments import show
from experiments.options import Jobs
from hushtune.cli.options import Json

app = typer.Typer()


@app.command("privtuna")
def privtuna(
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
    from hushtune.core.errors import SettingError

    if replay == train:
        raise SettingError(f"choose one of --replay and --train, but got {'both' if replay else 'neither'}")
    if replay:
        _replayed(seeds, out, plot, jobs, json)
        return
    import hushtune.client.objectives.neural  # noqa: F401 (says what to install, if PyTorch is missing)
    from experiments.privtuna import experiment, figures, tables
    from experiments.privtuna.tasks import Size
    from hushtune.core.checks import integer
    from hushtune.core.observer import bars_unless

    size = Size(None, batch=8, paper=True) if paper else Size(integer("rows", rows, 500), client_lr=client_lr)
    if quick:
        data, size = "digits", Size(500, epochs=3, rounds=3)
    cases = experiment.cases(data.split(","), integer("seeds", seeds, 1), size, every or paper)
    folder = Path("runs/privtuna") if out is None else out
    wanted = experiment.Experiment([s for s in cases if not done or s.done(folder)], folder, jobs)
    found = show.rows(experiment.rows(wanted, bars_unless(json)), as_json=json)
    show.files([*figures.draw(found, plot or folder), tables.write(found, folder)], as_json=json)


def _replayed(seeds: int, out: Path | None, plot: Path | None, jobs: int | None, json: bool) -> None:
    from experiments.privtuna import replay, replay_tables
    from hushtune.core.checks import integer
    from hushtune.core.observer import bars_unless

    seeds = integer("seeds", seeds, 1, 100)
    found = show.rows(replay.rows(replay.load(), bars_unless(json), jobs, seeds), as_json=json)
    if out is not None:
        replay_tables.write(found, out)
    if plot is not None:
        replay_tables.draw(found, plot)
