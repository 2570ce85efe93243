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

    paths = [path] if path is not None else sorted(default_home().glob("**/ledger*.db"))
    show.ledgers([Ledger(p) for p in paths], default_home(), as_json=json)


@ledger_app.command("limit")
def ledger_limit(
    path: Annotated[Path, typer.Argument(help="A ledger file; made if it is not there.")],
    epsilon: Annotated[float, typer.Option(help="Limit for everything ever charged.")],
    delta: Annotated[float, typer.Option(help="The limit's delta.")],
    unit: Annotated[
        str | None, typer.Option(help="For a new ledger: client or record.", autocompletion=among(UNITS))
    ] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="For a new ledger: the relation.", autocompletion=among(NEIGHBOURS))
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="For a new ledger: sums or renyi.", autocompletion=among(RULES))
    ] = None,
    json: Json = False,
) -> None:
    """Set a ledger's limit, or make a ledger with one."""
    from hushtune.cli import show
    from hushtune.core.errors import SettingError
    from hushtune.privacy.ledger import Ledger

    terms = {"unit": unit, "neighbours": neighbours, "rule": rule}
    given = {name: value for name, value in terms.items() if value is not None}
    ledger = Ledger(path)
    made = not ledger.exists
    if made:
        Ledger.new(path, epsilon, delta, **given)  # type: ignore[arg-type]
    elif given:
        raise SettingError(f"{path} exists: {sorted(given)} were fixed when it was made; only the limit can change")
    else:
        ledger.set_limit(epsilon, delta)
    show.limit(ledger, made, as_json=json)
