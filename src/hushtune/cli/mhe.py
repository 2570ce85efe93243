"""`hushtune mhe`: the environment that seal 'threshold' needs."""

from __future__ import annotations

from typing import Annotated

import typer

mhe_app = typer.Typer(help="Set up what seal 'threshold' needs: OpenFHE in a Python of its own.", no_args_is_help=True)


@mhe_app.command()
def setup(
    python: Annotated[
        str | None, typer.Option(help="The interpreter to take. Default: any suitable one found here.")
    ] = None,
) -> None:
    """Find a Python that OpenFHE has wheels for, and make an environment with it ($HUSHTUNE_MHE says where)."""
    from hushtune.mhe import environment

    environment.setup(python)
