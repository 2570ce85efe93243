"""Commands of DP-HYPE's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments import show
from experiments.options import Jobs, read_counts
from hushtune.cli.options import Json

app = typer.Typer()


@app.command("dp-hype-simulation")
def simulation(
    repetitions: Annotated[int, typer.Option(help="Simulated votes per case.")] = 5_000,
    seed: Annotated[int, typer.Option(help="Of the simulation.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write the figure to this SVG file.")] = None,
    json: Json = False,
) -> None:
    """DP-HYPE's Figure 2: the odds of a good choice, simulated, beside the bound of Theorem V.1."""
    from experiments.dp_hype.simulation import draw, rows
    from hushtune.core.checks import integer
    from hushtune.core.observer import bars_unless

    integer("repetitions", repetitions, 1)
    integer("seed", seed, 0)
    found = show.rows(rows(repetitions, seed, bars_unless(json)), as_json=json)
    if plot is not None:
        draw(found, plot)


@app.command("dp-hype")
def dp_hype(
    data: Annotated[str, typer.Option(help="mnist, cifar10, adult or digits; several with commas.")] = "adult",
    clients: Annotated[str, typer.Option(help="Numbers of clients, e.g. 50,100,250.")] = "100",
    split: Annotated[str, typer.Option(help="Splits, e.g. iid,dirichlet:30,5,0.5.")] = "iid",
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
    import hushtune.client.objectives.neural  # noqa: F401 (says what to install, if PyTorch is missing)
    from experiments.dp_hype import experiment, figures, tables
    from experiments.dp_hype.show import rows as shown
    from experiments.dp_hype.tasks import Case
    from experiments.epsilons import read_epsilons
    from hushtune.core.checks import integer
    from hushtune.core.observer import bars_unless
    from hushtune.data.splits import listed

    if quick:
        clients, runs, epsilon = "20", 5, "0.5,3,inf"
        rows = (1_400 if "digits" in data else 2_000) if rows is None else rows
    cases = [
        Case(name, count, how, rows, seed)
        for name in data.split(",")
        for how in listed(split)
        for count in read_counts("clients", clients)
    ]
    wanted = experiment.Experiment(cases, read_epsilons(epsilon), integer("runs", runs, 1), compare, out, jobs)
    found = shown(experiment.rows(wanted, bars_unless(json)), as_json=json)
    show.files([*figures.draw(found, plots or out), tables.write(found, out)], as_json=json)
