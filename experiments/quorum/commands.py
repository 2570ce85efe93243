"""The command that measures openings under seal Quorum."""

from __future__ import annotations

from typing import Annotated

import typer

from experiments import show
from experiments.options import Jobs, read_counts
from hushtune.cli.options import Json

app = typer.Typer()


@app.command("quorum")
def quorum(
    clients: Annotated[str, typer.Option(help="Numbers of clients, e.g. 100,10000,1000000.")] = "100,10000",
    nodes: Annotated[int, typer.Option(help="3, 5 or 7, each a process of this machine.")] = 3,
    ballot: Annotated[
        str, typer.Option(help="k-hot: 10 votes on 100 candidates; soft: grades from 0 to 3; dbscan: PF-DBSCAN.")
    ] = "k-hot",
    signed: Annotated[bool, typer.Option("--signed", help="Clients have identities, and sign.")] = False,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Bytes, CPU seconds and time for the winner of a vote that nobody sees: clients, nodes and coordinator."""
    from experiments.quorum.ballots import BALLOTS, CLUSTERS, Case
    from experiments.quorum.clusters import clusters as measured
    from experiments.quorum.votes import vote
    from hushtune.core.errors import SettingError
    from hushtune.core.processes.pool import default_jobs
    from hushtune.seals.quorum.sharing import crowd

    if ballot not in (*BALLOTS, CLUSTERS):
        raise SettingError(f"ballot must be one of {[*BALLOTS, CLUSTERS]}, but got '{ballot}'")
    cases = [Case(count, crowd(nodes).nodes, ballot, signed) for count in read_counts("clients", clients, 2)]
    jobs = jobs or default_jobs()
    show.rows((measured(case) if case.ballot == CLUSTERS else vote(case, jobs) for case in cases), as_json=json)
