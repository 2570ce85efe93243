"""`hushtune mhe`: the environment that seal 'threshold' needs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from hushtune.cli.options import Json, print_json

mhe_app = typer.Typer(help="Set up what seal 'threshold' needs: OpenFHE in a Python of its own.", no_args_is_help=True)


@mhe_app.command()
def setup(
    python: Annotated[
        str | None, typer.Option(help="The interpreter to take. Default: any suitable one found here.")
    ] = None,
    json: Json = False,
) -> None:
    """Find a Python that OpenFHE has wheels for, and make an environment with it ($HUSHTUNE_MHE says where)."""
    from hushtune.seals.threshold import environment

    made = environment.setup(python, say=lambda line: print(line, file=sys.stderr if json else sys.stdout))
    if json:
        print_json({"python": str(made)})
