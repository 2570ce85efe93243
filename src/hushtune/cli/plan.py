"""`hushtune plan`: what to expect of a run."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushtune.cli.options import METHODS, NEIGHBOURS, SEALS, UNITS, Json, among, budget_text, print_json
from hushtune.core.words import as_set, down, up

if TYPE_CHECKING:
    from hushtune.methods.plan import Plan

_OPTIONS = {"name": "--method", "voters": "--voters", "prior": "--prior"}


def plan(
    clients: Annotated[int, typer.Option(help="How many clients will be asked.")],
    candidates: Annotated[int, typer.Option(help="How many candidates there will be.")],
    method: Annotated[
        str, typer.Option(help="vote, or any other method by its name.", autocompletion=among(METHODS))
    ] = "vote",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method, as in a study: --set k=3."),
    ] = None,
    voters: Annotated[
        int | None,
        typer.Option(help="Parts that each client's rows are split into, for unit record. Default: the method's."),
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(metavar="VOTERS", help="As how many voters a public prior will count, for vote. Default: none."),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The guarantee wanted.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-5,
    unit: Annotated[
        str, typer.Option(help="Whose presence is hidden: client or record.", autocompletion=among(UNITS))
    ] = "client",
    neighbours: Annotated[
        str, typer.Option(help="replace-one, zero-out or add-remove.", autocompletion=among(NEIGHBOURS))
    ] = "replace-one",
    seal: Annotated[
        str | None,
        typer.Option(
            help="masked, clear, curator, quorum or threshold. Default: what the method takes.",
            autocompletion=among(SEALS),
        ),
    ] = None,
    dropouts: Annotated[
        float | None, typer.Option(help="Share of clients that may fail to answer. Default: the seal's.")
    ] = None,
    corrupt: Annotated[
        float | None, typer.Option(help="Share of clients that may collude, or add no noise. Default: the seal's.")
    ] = None,
    pinned: Annotated[bool, typer.Option("--pinned/--no-pinned", help="Whether identities will be pinned.")] = True,
    ledger: Annotated[Path | None, typer.Option(help="The ledger that would be charged; only read.")] = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="About clients. vote: good (candidates; default: one in 20), overlap (standard deviation of voters' "
            "losses, good 0, bad 1; default: 0.5). thompson: agreement (0 to 1; default: 0.6). propose-test, noisy-max:"
            " spread (best mean score less the worst; default: 0.5).",
        ),
    ] = None,
    repetitions: Annotated[int, typer.Option(help="Simulated votes or runs.")] = 100,
    json: Json = False,
) -> None:
    """Say beforehand whether a run can work: noise, odds of a good choice or of being heard, costs. Touches no data."""
    from hushtune.core.observer import bars_unless
    from hushtune.methods.registry import method_given
    from hushtune.privacy.guarantee import Privacy
    from hushtune.privacy.ledger import Ledger
    from hushtune.review.planning import believed
    from hushtune.review.planning import plan as expect
    from hushtune.seals.registry import default_seal, seal_from_json

    named: dict[str, Any] = {"name": method, **({"voters": voters} if voters is not None else {})}
    if prior is not None:
        named["prior"] = believed(prior)
    given = method_given({**_named("--set", settings, "k=3", (*named, "prior")), **named})
    shares = {name: share for name, share in (("dropouts", dropouts), ("corrupt", corrupt)) if share is not None}
    if seal is None:
        seal = "curator" if given.consults else default_seal().name
    found = expect(
        clients,
        candidates,
        privacy=Privacy(epsilon, delta, unit, neighbours),  # type: ignore[arg-type]
        method=given,
        seal=seal_from_json({"name": seal, **shares}),
        pinned=pinned,
        ledger=Ledger(ledger) if ledger is not None else None,
        assume=_named("--assume", assume, "good=3"),
        repetitions=repetitions,
        observer=bars_unless(json),
    )
    if json:
        print_json(found.to_json())
    else:
        _show(found)


def _named(option: str, given: list[str] | None, such: str, taken: tuple[str, ...] = ()) -> dict[str, Any]:
    """Values by name, as TOML has them; a value that is no TOML is a text. Names that are `taken` have options."""
    from hushtune.core.errors import SettingError

    found: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not name or not equals:
            raise SettingError(f"{option} must be NAME=VALUE, such as {such}, but got '{text}'")
        if name in taken:
            raise SettingError(f"{option} cannot give '{name}', which has an option of its own: use {_OPTIONS[name]}")
        if name in found:
            raise SettingError(f"{option} must give each name once, but got '{name}' twice")
        try:
            found[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name] = value.strip()
    return found


def _show(found: Plan) -> None:
    """The verdict, what it follows from, what else one could do, what it costs."""
    print("\n".join(found.head()) + "\n")
    for line in found.lines():
        print(line)
    beside = ""
    if math.isfinite(renyi := found.charge.get("renyi", math.inf)):
        beside = f"; by Rényi divergences epsilon {up(renyi)}"
    print(f"The run alone costs {budget_text(found.charge)} (rule '{found.charge['rule']['name']}'){beside}")
    if found.ledger is not None:
        print(_books(found.ledger))


def _books(books: dict[str, Any]) -> str:
    if not books["exists"]:
        limit = budget_text(books["limit"], as_set)
        return f"{books['path']} does not exist: the run would make it, with {limit} as its limit"
    verdict = f"the run would be REFUSED: {books['reason']}"
    if books["allowed"]:
        verdict = f"with the run it would have spent {budget_text(books['after'])} (rule '{books['rule']['name']}')"
    limit, left = budget_text(books["limit"], as_set), budget_text(books["left"], down)
    return f"{books['path']}: limit {limit}; left {left}; {verdict}"
