"""`hushtune ledger`: what was spent, and what may be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtune.cli.options import NEIGHBOURS, RULES, UNITS, Json, among

ledger_app = typer.Typer(help="Show ledgers and set their limits.", no_args_is_help=True)


@ledger_app.command("show")
def ledger_show(
    path: Annotated[Path | None, typer.Argument(help="A ledger file. Default: all under the home folder.")] = None,
    json: Json = False,
) -> None:
    """What was spent, on what, and what is left."""
    from hushtune.cli import show
    from hushtune.federation.local import default_home
    from hushtune.privacy.ledger import Ledger

    home = default_home()
    lost = (anchor.with_suffix("") for anchor in home.glob("**/ledger*.db.anchor"))  # a ledger that is gone is named
    paths = [path] if path is not None else sorted({*home.glob("**/ledger*.db"), *lost})
    show.ledgers([Ledger(p) for p in paths], home, as_json=json)


@ledger_app.command("limit")
def ledger_limit(
    path: Annotated[Path, typer.Argument(help="A ledger file; made if it is not there.")],
    epsilon: Annotated[float, typer.Option(help="Limit for everything ever charged.")],
    delta: Annotated[float, typer.Option(help="The limit's delta; 0: pure runs only.")],
    unit: Annotated[
        str | None,
        typer.Option(help="Client or record; fixed once something was charged.", autocompletion=among(UNITS)),
    ] = None,
    neighbours: Annotated[
        str | None,
        typer.Option(help="The relation; fixed once something was charged.", autocompletion=among(NEIGHBOURS)),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="For a new ledger: sums or renyi.", autocompletion=among(RULES))
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on though entries are lost; take their cost off the limit.")
    ] = False,
    json: Json = False,
) -> None:
    """Set a ledger's limit, or make a ledger with one."""
    from hushtune.cli import show
    from hushtune.core.errors import SettingError
    from hushtune.privacy.ledger import Ledger

    terms = {"unit": unit, "neighbours": neighbours, "rule": rule}
    given = {name: value for name, value in terms.items() if value is not None}
    ledger = Ledger(path)
    made = not (path.exists() if accept_loss else ledger.exists)
    if made and accept_loss and unit is None:
        raise SettingError(f"{path} is gone, and nobody knows what it counted: say --unit client or --unit record")
    if made:
        Ledger.new(path, epsilon, delta, accept_loss=accept_loss, **given)  # type: ignore[arg-type]
    elif rule is not None:
        raise SettingError(f"{path} exists: its rule was fixed when it was made; leave --rule out")
    else:
        ledger.set_limit(epsilon, delta, accept_loss, unit, neighbours)  # type: ignore[arg-type]
    show.limit(ledger, made, as_json=json)
