"""The commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtune.cli import EXIT_CODES
from hushtune.cli.bench import Json, bench_app
from hushtune.cli.mhe import mhe_app

app = typer.Typer(
    help="Tune hyperparameters across parties that may not show each other their data.",
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ledger_app = typer.Typer(help="Show ledgers and set their limits.", no_args_is_help=True)
app.add_typer(ledger_app, name="ledger")
identity_app = typer.Typer(help="Make and show a client's signing key, and pin keys in a roster.", no_args_is_help=True)
app.add_typer(identity_app, name="identity")
app.add_typer(bench_app, name="bench")
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
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens to the error stream.")] = False,
) -> None:
    import logging

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )


@app.command()
def run(
    study: Annotated[Path, typer.Argument(help="The study file (TOML).")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the result; the same folder resumes a run.")],
    jobs: Annotated[int | None, typer.Option(help="Processes for scoring. Default: one per core.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")] = False,
    json: Json = False,
) -> None:
    """Run a study: score, ask, choose, and say what that revealed."""
    from hushtune.cli import show
    from hushtune.reporting import report
    from hushtune.study import read
    from hushtune.tuning import tune

    with show.stdout_kept_clean():
        plan = read(study)
        result = tune(
            plan.clients,
            plan.candidates,
            method=plan.method,
            privacy=plan.privacy,
            seal=plan.seal,
            search=plan.search,
            simulation=plan.simulation,
            ledger=plan.ledger,
            folder=out,
            jobs=jobs,
            quiet=quiet,
        )
    show.result(result, report(out), as_json=json)


@app.command()
def plan(
    clients: Annotated[int, typer.Option(help="How many clients will be asked.")],
    candidates: Annotated[int, typer.Option(help="How many candidates there will be.")],
    method: Annotated[str, typer.Option(help="vote, thompson, propose-test or noisy-max.")] = "vote",
    epsilon: Annotated[float, typer.Option(help="The guarantee wanted.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Its delta.")] = 1e-5,
    unit: Annotated[str, typer.Option(help="Whose presence is hidden: client or record.")] = "client",
    neighbours: Annotated[str, typer.Option(help="replace-one, zero-out or add-remove.")] = "replace-one",
    voters: Annotated[int, typer.Option(help="Parts that each client's rows are split into, for unit record.")] = 1,
    k: Annotated[int | None, typer.Option(help="Votes per ballot. Default: the best.")] = None,
    seal: Annotated[str | None, typer.Option(help="masked, clear or curator. Default: what the method takes.")] = None,
    dropouts: Annotated[float, typer.Option(help="Share of clients that may fail to answer.")] = 0.1,
    corrupt: Annotated[float, typer.Option(help="Share of clients that may collude, or add no noise.")] = 0.1,
    pinned: Annotated[bool, typer.Option(help="Whether identities will be pinned.")] = True,
    ledger: Annotated[Path | None, typer.Option(help="The ledger that would be charged; only read.")] = None,
    good: Annotated[int | None, typer.Option(help="How many candidates are good. Default: one in 20.")] = None,
    overlap: Annotated[float, typer.Option(help="How far voters differ: sd of a loss; good 0, bad 1.")] = 0.5,
    iterations: Annotated[int, typer.Option(help="thompson: trials of each agent after its initial ones.")] = 30,
    rounds: Annotated[int | None, typer.Option(help="thompson: iterations in which a sum is opened.")] = None,
    regions: Annotated[int | None, typer.Option(help="thompson: sub-regions.")] = None,
    features: Annotated[int, typer.Option(help="thompson: features of the shared model.")] = 50,
    rate: Annotated[float, typer.Option(help="thompson: the chance that an agent is in a sum.")] = 1.0,
    agreement: Annotated[float, typer.Option(help="thompson: how far agents' vectors agree, from 0 to 1.")] = 0.6,
    granularity: Annotated[float, typer.Option(help="propose-test: the smallest gain of a threshold.")] = 0.1,
    epsilon0: Annotated[float | None, typer.Option(help="propose-test: of one test, for a filter.")] = None,
    spread: Annotated[float, typer.Option(help="propose-test, noisy-max: best mean score less the worst.")] = 0.5,
    repetitions: Annotated[int, typer.Option(help="Simulated runs.")] = 1_000,
    json: Json = False,
) -> None:
    """Say beforehand whether a run can work: noise, odds of a good choice or of being heard, costs. Touches no data."""
    from hushtune.cli import show
    from hushtune.errors import SettingError
    from hushtune.methods.propose import NoisyMax, ProposeTest
    from hushtune.methods.thompson import Thompson
    from hushtune.methods.vote import Vote
    from hushtune.odds import Agreement
    from hushtune.planning import plan as expect
    from hushtune.privacy.guarantee import Privacy
    from hushtune.privacy.ledger import Ledger
    from hushtune.seals import seal_from_json

    privacy = Privacy(epsilon, delta, unit, neighbours)  # type: ignore[arg-type]
    curated = method in ("propose-test", "noisy-max")
    seal = seal or ("curator" if curated else "masked")
    sealed = seal_from_json({"name": seal, "dropouts": dropouts, "corrupt": corrupt})
    books = Ledger(ledger) if ledger is not None else None
    if method not in ("vote", "thompson", "propose-test", "noisy-max"):
        raise SettingError(f"method must be vote, thompson, propose-test or noisy-max, but got '{method}'")
    if curated:
        tested: NoisyMax | ProposeTest = NoisyMax(voters)
        if method == "propose-test":
            tested = ProposeTest(voters, granularity, stop="filter" if epsilon0 else "worst-case", epsilon0=epsilon0)
        chances = expect(
            clients,
            candidates,
            privacy=privacy,
            method=tested,
            seal=sealed,
            ledger=books,
            agreement=spread,
            repetitions=repetitions,
        )
        show.choice(chances, as_json=json)
        return
    if method == "thompson":
        if k is not None or voters != 1:
            raise SettingError("--k and --voters are for method vote")
        agents = Thompson(iterations, rounds, regions, features=features, rate=rate)
        heard = expect(
            clients, candidates, privacy=privacy, method=agents, seal=sealed, ledger=books, agreement=agreement
        )
        show.sharing(heard, as_json=json)
        return
    expected = expect(
        clients,
        candidates,
        privacy=privacy,
        method=Vote(k, voters) if k is not None else None,
        voters=voters,
        seal=sealed,
        pinned=pinned,
        ledger=books,
        agreement=Agreement(good or max(1, candidates // 20), overlap),
        repetitions=repetitions,
        quiet=json,
    )
    show.plan(expected, as_json=json)


@app.command("report")
def report_(folder: Annotated[Path, typer.Argument(help="A folder that `hushtune run` wrote.")]) -> None:
    """Write report.html: one file that shows what a run chose, opened, cost and revealed."""
    from hushtune.reporting import report

    print(report(folder))


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="A folder that `hushtune run` wrote.")], json: Json = False
) -> None:
    """Recompute from the recorded events and openings everything that a result claims."""
    from hushtune.cli import show
    from hushtune.verification import verify as check

    checks = check(folder)
    show.checks(checks, as_json=json)
    raise typer.Exit(0 if all(c.holds for c in checks) else 1)


@ledger_app.command("show")
def ledger_show(
    path: Annotated[Path | None, typer.Argument(help="A ledger file. Default: all under the home folder.")] = None,
    json: Json = False,
) -> None:
    """What was spent, on what, and what is left."""
    from hushtune.cli import show
    from hushtune.federation.local import default_home
    from hushtune.privacy.ledger import Ledger

    paths = [path] if path is not None else sorted(default_home().glob("*/**/ledger*.db"))
    show.ledgers([Ledger(p) for p in paths], default_home(), as_json=json)


@ledger_app.command("limit")
def ledger_limit(
    path: Annotated[Path, typer.Argument(help="A ledger file; made if it is not there.")],
    epsilon: Annotated[float, typer.Option(help="Limit for everything ever charged.")],
    delta: Annotated[float, typer.Option(help="The limit's delta.")],
    unit: Annotated[str | None, typer.Option(help="For a new ledger: client or record.")] = None,
    neighbours: Annotated[str | None, typer.Option(help="For a new ledger: the relation.")] = None,
    rule: Annotated[str | None, typer.Option(help="For a new ledger: sums or renyi.")] = None,
) -> None:
    """Set a ledger's limit, or make a ledger with one."""
    from hushtune.errors import SettingError
    from hushtune.privacy.ledger import Ledger

    terms = {"unit": unit, "neighbours": neighbours, "rule": rule}
    given = {name: value for name, value in terms.items() if value is not None}
    ledger = Ledger(path)
    if not ledger.exists:
        Ledger.new(path, epsilon, delta, **given)  # type: ignore[arg-type]
        print(f"made {path} with limit epsilon {epsilon:g}, delta {delta:g}")
        return
    if given:
        raise SettingError(f"{path} exists: {sorted(given)} were fixed when it was made; only the limit can change")
    ledger.set_limit(epsilon, delta)
    left = ledger.left() or ledger.limit()
    assert left is not None
    print(f"limit of {path} is now epsilon {epsilon:g}, delta {delta:g}; left: {left.epsilon:.4g}, {left.delta:.3g}")


@identity_app.command("new")
def identity_new(path: Annotated[Path, typer.Argument(help="Where the secret key goes; never overwritten.")]) -> None:
    """Make a client's signing key. The file stays with the client."""
    from hushtune.identity import Identity

    identity = Identity.new()
    identity.save(path)
    print(f"made {path}; public key: {identity.public.hex()}")


@identity_app.command("show")
def identity_show(path: Annotated[Path, typer.Argument(help="A file made by `hushtune identity new`.")]) -> None:
    """Print the public key, for the roster."""
    from hushtune.identity import Identity

    print(Identity.load(path).public.hex())


@identity_app.command("roster")
def identity_roster(
    path: Annotated[Path, typer.Argument(help="Where the roster goes.")],
    client: Annotated[list[str], typer.Argument(help="NAME=PUBLICKEY for every client, in order.")],
) -> None:
    """Pin the clients' public keys in a roster file, to be given to every client."""
    import os

    from hushtune.errors import SettingError
    from hushtune.roster import Roster

    pairs = [entry.partition("=") for entry in client]
    try:
        keys = tuple(bytes.fromhex(key) for _, _, key in pairs)
    except ValueError:
        raise SettingError(f"clients must be given as NAME=PUBLICKEY in hex, but got {client}") from None
    if any(len(key) != 32 for key in keys):
        raise SettingError("a public key must be 32 bytes in hex, as `hushtune identity show` prints it")
    Roster(tuple(name for name, _, _ in pairs), keys, os.urandom(32)).save(path)
    print(f"made {path} with {len(keys)} clients; give it to every client by a way the server does not control")


@app.command()
def split(
    data: Annotated[str, typer.Argument(help="digits, mnist, cifar10 or adult.")],
    how: Annotated[str, typer.Option(help="iid, dirichlet:ALPHA, quantity:ALPHA, noise:DEVIATION, imb1, imb2.")],
    clients: Annotated[int, typer.Option(help="How many.")],
    seed: Annotated[int, typer.Option(help="Of the split.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write a picture to this SVG file.")] = None,
    json: Json = False,
) -> None:
    """Show who would hold what if an example data set were split among clients."""
    import json as writer

    from hushtune.data import load
    from hushtune.data.holdings import holdings
    from hushtune.data.splits import shares

    found = holdings(shares(how, load(data, seed=seed, quiet=json).train, clients, seed))
    print(writer.dumps({"rows": found.rows()}) if json else found.table())
    if plot is not None:
        found.draw(plot)
