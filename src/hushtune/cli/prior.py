"""The command `hushtune prior`: what public data say of a study's candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hushtune.cli.options import DATA, Jobs, Json, Quiet, among, print_json


def prior(
    study: Annotated[Path, typer.Argument(help="The study file (TOML): its candidates are scored.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The prior; the study can name it then.")],
    data: Annotated[
        str | None,
        typer.Option(help="A PUBLIC data set, such as digits, mnist or adult.", autocompletion=among(DATA)),
    ] = None,
    client: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Instead: a function that gives a Client with PUBLIC data."),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="With --data: at most so many rows.")] = None,
    seed: Annotated[int, typer.Option(help="With --data: of the split into training and test rows.")] = 0,
    jobs: Jobs = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Score a study's candidates on PUBLIC data, and keep that as a prior for its vote. Charges nothing."""
    import math

    from hushtune.cli.show import stdout_kept_clean
    from hushtune.cli.studyfile import read_public
    from hushtune.core.errors import SettingError
    from hushtune.core.observer import bars_unless, told_failures
    from hushtune.methods.figures import config_text
    from hushtune.methods.prior import Prior, save
    from hushtune.run.public import public_losses

    if out.exists():
        raise SettingError(f"{out} must not be there yet: give another --out, or remove the file")
    observer = bars_unless(quiet)
    with stdout_kept_clean(), told_failures(observer):
        public = read_public(study, data, client, rows, seed)
        losses = public_losses(public.client, public.candidates, public.search, jobs, observer)
        scored = [
            (config, float(loss) if math.isfinite(loss) else None)
            for config, loss in zip(public.candidates.configs, losses, strict=True)
        ]
        failed = sum(loss is None for _, loss in scored)
        if failed == len(scored):
            raise SettingError("a prior needs a candidate that can be scored, but all of them failed on these data")
        save(out, scored, public.source)
    best = public.candidates[Prior.load(out).settled(public.candidates).alone]
    if json:
        print_json({"prior": str(out), "candidates": len(scored), "failed": failed, "best": best})
        return
    print(f"PUBLIC: {out} holds every loss as it is, and nothing protects the data that they come from")
    print(f"prior: {out}, {len(scored)} candidates" + (f", {failed} of which failed" if failed else ""))
    print(f"by itself it would choose: {config_text(best)}")
    print(f'in the study, if both lie in one folder, under [method]: prior = "{out.name}"')
