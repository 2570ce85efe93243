"""The command `hushtune compare`: methods, seals and guarantees side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtune.cli.options import Json, LogJson, Quiet, folder_named, print_json, watching


def compare(
    study: Annotated[Path, typer.Argument(help="A study file (TOML) with a table named compare.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FOLDER", parser=folder_named, help="For all runs; the same folder goes on after Ctrl-C."
        ),
    ],
    jobs: Annotated[int | None, typer.Option(help="Processes for scoring. Default: one per core.")] = None,
    quiet: Quiet = False,
    log_json: LogJson = None,
    json: Json = False,
) -> None:
    """Simulate several methods, seals and epsilons on one federation, to choose one; charges no ledger."""
    from hushtune.cli import show
    from hushtune.cli.studyfile import read_comparison
    from hushtune.core.observer import told_failures
    from hushtune.review.comparison.arms import compare as run
    from hushtune.review.pages import PICTURE, report

    with show.stdout_kept_clean():
        with watching(quiet, log_json) as observer:
            with told_failures(observer):
                said = read_comparison(study)
            found = run(
                said.clients,
                said.candidates,
                methods=said.methods,
                seals=said.seals,
                privacies=said.privacies,
                simulation=said.simulation,
                search=said.search,
                folder=out,
                jobs=jobs,
                observer=observer,
            )
        path = report(out)
    if json:
        print_json(found.to_json())
        return
    print(f"SIMULATION: scores on the reference, mean and standard deviation over {found.draws} draws of the noise")
    for name, words in (("opt", "the best candidate"), ("random_guess", "the mean candidate")):
        if name in found.reference:
            print(f"  {words} scores {found.reference[name]:.3f}")
    drawn = f"   picture: {path.with_name(PICTURE)}" if found.ran[0].scores else ""
    print(f"\n{found.table()}\n\npage: {path}{drawn}")
