"""`python -m experiments`: all experiments' commands."""

from __future__ import annotations

import typer

from experiments.choice import commands as choice
from experiments.dp_fts_de import commands as dp_fts_de
from experiments.dp_hype import commands as dp_hype
from experiments.flora import commands as flora
from experiments.privtuna import commands as privtuna
from experiments.propose_test import commands as propose_test
from experiments.quorum import commands as quorum
from experiments.records import commands as records
from experiments.speed import commands as speed
from hushtune.cli import start
from hushtune.cli.options import Verbose, log

app = typer.Typer(
    help="Repeat the papers' experiments, and measure speed. Run it at the repository's root.",
    epilog="Exit codes are those of `hushtune`.",
    no_args_is_help=True,
    add_completion=False,  # shells complete programs, and this one is called python
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (choice, dp_hype, flora, privtuna, dp_fts_de, propose_test, quorum, records, speed):
    app.add_typer(commands.app)


@app.callback()
def _root(verbose: Verbose = False) -> None:
    log(verbose)


if __name__ == "__main__":
    start(app, "python -m experiments")
