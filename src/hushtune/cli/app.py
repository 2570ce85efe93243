"""The command line: all commands of `hushtune`, and what they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtune.cli import EXIT_CODES
from hushtune.cli.compare import compare
from hushtune.cli.identity import identity_app
from hushtune.cli.ledger import ledger_app
from hushtune.cli.mhe import mhe_app
from hushtune.cli.node import node
from hushtune.cli.options import (
    DATA,
    SPLITS,
    Json,
    LogJson,
    Quiet,
    Verbose,
    among,
    folder_named,
    log,
    print_json,
    watching,
)
from hushtune.cli.plan import plan
from hushtune.cli.prior import prior

app = typer.Typer(
    help="Tune hyperparameters across parties that may not show each other their data.",
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(ledger_app, name="ledger")
app.add_typer(identity_app, name="identity")
app.add_typer(mhe_app, name="mhe")


def _version(wanted: bool) -> None:
    if wanted:
        from hushtune._version import __version__

        print(f"hushtune {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    log(verbose)


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", parser=folder_named, help="For the result; the same folder resumes a run."
        ),
    ],
    jobs: Annotated[int | None, typer.Option(help="Processes for scoring. Default: one per core.")] = None,
    identity: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sign the result with this key (hushtune identity new).")
    ] = None,
    quiet: Quiet = False,
    log_json: LogJson = None,
    json: Json = False,
) -> None:
    """Run a study: score, ask, choose, and say what that revealed."""
    from hushtune.cli import show
    from hushtune.cli.studyfile import read
    from hushtune.core.identity import Identity
    from hushtune.core.observer import told_failures
    from hushtune.review.pages import report
    from hushtune.run.tuning import tune

    with show.stdout_kept_clean(), watching(quiet, log_json) as observer:
        with told_failures(observer):
            said = read(study)
            own = Identity.load(identity) if identity is not None else None
        result = tune(
            said.clients,
            **vars(said.study),
            simulation=said.simulation,
            ledger=said.ledger,
            folder=out,
            jobs=jobs,
            identity=own,
            observer=observer,
        )
    show.result(result, report(out), as_json=json)


app.command()(plan)
app.command()(compare)
app.command()(node)
app.command()(prior)


@app.command("report")
def report_(
    folder: Annotated[Path, typer.Argument(help="A folder that `hushtune run` wrote.")], json: Json = False
) -> None:
    """Write report.html: one file that shows what a run chose, opened, cost and revealed."""
    from hushtune.review.pages import report

    path = report(folder)
    if json:
        print_json({"report": str(path)})
    else:
        print(path)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="A folder that `hushtune run` wrote.")],
    signer: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Who must have signed: a public key, or a file with what `identity show` prints."
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The coordinator's ledger. Default: looked for under the home folder.")
    ] = None,
    json: Json = False,
) -> None:
    """Recompute everything that a result claims, and compare it with what lies beside it."""
    from hushtune.cli import show
    from hushtune.privacy.ledger import Ledger
    from hushtune.review.verification import verify as check

    found = check(folder, signer=signer, ledger=Ledger(ledger) if ledger is not None else None)
    show.verification(found, as_json=json)
    raise typer.Exit(0 if found.holds else 1)


@app.command()
def split(
    data: Annotated[
        str, typer.Argument(help="A data set, such as digits, mnist or adult.", autocompletion=among(DATA))
    ],
    how: Annotated[
        str,
        typer.Option(
            help="iid, dirichlet:ALPHA, quantity:ALPHA, noise:DEVIATION, imb1, imb2.", autocompletion=among(SPLITS)
        ),
    ],
    clients: Annotated[int, typer.Option(help="How many.")],
    seed: Annotated[int, typer.Option(help="Of the split.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write a picture to this SVG file.")] = None,
    json: Json = False,
) -> None:
    """Show who would hold what if an example data set were split among clients."""
    from hushtune.core.observer import bars_unless
    from hushtune.data import load
    from hushtune.data.holdings import holdings
    from hushtune.data.splits import shares

    found = holdings(shares(how, load(data, seed=seed, observer=bars_unless(json)).train, clients, seed))
    if json:
        print_json({"rows": found.rows()})
    else:
        print(found.table())
    if plot is not None:
        found.draw(plot)
