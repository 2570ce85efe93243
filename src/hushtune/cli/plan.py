"""`hushtune plan`: what to expect of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hushtune.cli.options import NEIGHBOURS, SEALS, UNITS, Json, among

if TYPE_CHECKING:
    from hushtune.methods.propose_test.method import NoisyMax, ProposeTest
    from hushtune.methods.thompson.method import Thompson
    from hushtune.methods.vote.method import Vote
    from hushtune.methods.vote.odds import Agreement

METHODS = {  # the methods that can be planned, and the options that are about one of them
    "vote": {"k", "voters", "pinned", "good", "overlap", "repetitions"},
    "thompson": {"iterations", "rounds", "regions", "features", "rate", "agreement"},
    "propose-test": {"voters", "granularity", "epsilon0", "spread", "repetitions"},
    "noisy-max": {"voters", "spread", "repetitions"},
}


def plan(
    context: typer.Context,
    clients: Annotated[int, typer.Option(help="How many clients will be asked.")],
    candidates: Annotated[int, typer.Option(help="How many candidates there will be.")],
    method: Annotated[
        str, typer.Option(help="vote, thompson, propose-test or noisy-max.", autocompletion=among(list(METHODS)))
    ] = "vote",
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
            help="masked, clear, curator or threshold. Default: what the method takes.", autocompletion=among(SEALS)
        ),
    ] = None,
    dropouts: Annotated[
        float | None, typer.Option(help="Share of clients that may fail to answer. Default: the seal's.")
    ] = None,
    corrupt: Annotated[
        float | None, typer.Option(help="Share of clients that may collude, or add no noise. Default: the seal's.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The ledger that would be charged; only read.")] = None,
    voters: Annotated[
        int | None, typer.Option(help="Parts that each client's rows are split into, for unit record. Default: 1.")
    ] = None,
    k: Annotated[int | None, typer.Option(help="vote: votes per ballot. Default: the best.")] = None,
    pinned: Annotated[
        bool | None, typer.Option("--pinned/--no-pinned", help="vote: whether identities will be pinned.")
    ] = None,
    good: Annotated[int | None, typer.Option(help="vote: how many candidates are good. Default: one in 20.")] = None,
    overlap: Annotated[
        float | None, typer.Option(help="vote: standard deviation of voters' losses; good 0, bad 1. Default: 0.5.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option(help="thompson: trials of each agent after its initial ones. Default: 30.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="thompson: iterations in which a sum is opened.")] = None,
    regions: Annotated[int | None, typer.Option(help="thompson: sub-regions.")] = None,
    features: Annotated[int | None, typer.Option(help="thompson: features of the shared model. Default: 50.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="thompson: the chance that an agent is in a sum. Default: 1.")
    ] = None,
    agreement: Annotated[
        float | None, typer.Option(help="thompson: how far agents' vectors agree, from 0 to 1. Default: 0.6.")
    ] = None,
    granularity: Annotated[
        float | None, typer.Option(help="propose-test: the smallest gain of a threshold. Default: 0.1.")
    ] = None,
    epsilon0: Annotated[float | None, typer.Option(help="propose-test: of one test, for a filter.")] = None,
    spread: Annotated[
        float | None, typer.Option(help="propose-test, noisy-max: best mean score less the worst. Default: 0.5.")
    ] = None,
    repetitions: Annotated[int | None, typer.Option(help="Simulated runs, but for thompson. Default: 1,000.")] = None,
    json: Json = False,
) -> None:
    """Say beforehand whether a run can work: noise, odds of a good choice or of being heard, costs. Touches no data."""
    from hushtune.cli.plans import show
    from hushtune.core.observer import bars_unless
    from hushtune.privacy.guarantee import Privacy
    from hushtune.privacy.ledger import Ledger
    from hushtune.review.planning import plan as expect
    from hushtune.seals.registry import seal_from_json

    given = _about(method, {name: value for name, value in context.params.items() if value is not None})
    seal = seal or ("curator" if method in ("propose-test", "noisy-max") else "masked")
    shares = {"dropouts": dropouts, "corrupt": corrupt}
    found = expect(
        clients,
        candidates,
        privacy=Privacy(epsilon, delta, unit, neighbours),  # type: ignore[arg-type]
        method=_method(method, given),
        seal=seal_from_json({"name": seal, **{name: share for name, share in shares.items() if share is not None}}),
        pinned=given.get("pinned", True),
        ledger=Ledger(ledger) if ledger is not None else None,
        agreement=_agreement(method, given, candidates),
        repetitions=given.get("repetitions", 1_000),
        observer=bars_unless(json),
    )
    show(found, as_json=json)


def _about(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options given that are about the method; one that is about others only is refused, not ignored."""
    from hushtune.core.errors import SettingError

    if method not in METHODS:
        raise SettingError(f"method must be one of {list(METHODS)}, but got '{method}'")
    for name in given:
        others = [other for other, options in METHODS.items() if name in options]
        if others and method not in others:
            raise SettingError(f"--{name} is for method {' or '.join(others)}, but got method {method}; leave it out")
    return {name: value for name, value in given.items() if name in METHODS[method]}


def _method(name: str, given: dict[str, Any]) -> Vote | Thompson | ProposeTest | NoisyMax:
    from hushtune.methods.propose_test.method import NoisyMax, ProposeTest
    from hushtune.methods.thompson.method import Thompson
    from hushtune.methods.vote.method import Vote

    def fields(*names: str) -> dict[str, Any]:
        return {name: given[name] for name in names if name in given}

    if name == "vote":
        return Vote(**fields("k", "voters"))
    if name == "thompson":
        return Thompson(**fields("iterations", "rounds", "regions", "features", "rate"))
    if name == "noisy-max":
        return NoisyMax(**fields("voters"))
    stop: Any = "filter" if "epsilon0" in given else "worst-case"
    return ProposeTest(**fields("voters", "granularity", "epsilon0"), stop=stop)


def _agreement(method: str, given: dict[str, Any], candidates: int) -> Agreement | float | None:
    """How far clients agree, in the method's own terms."""
    from hushtune.core.checks import number
    from hushtune.methods.vote.odds import Agreement

    if method == "vote":
        return Agreement(given.get("good", max(1, candidates // 20)), given.get("overlap", 0.5))
    if "spread" in given:
        return number("spread", given["spread"], 0, 0.95, "(]")
    return given.get("agreement")
