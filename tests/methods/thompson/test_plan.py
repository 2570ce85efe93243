"""What `plan` says about agents that share: checked against simulated openings."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hushtune as ht
from hushtune.methods.plan import Prospect
from hushtune.methods.study import Study
from hushtune.methods.thompson.plan import HEARD, LOST, Sharing
from hushtune.methods.thompson.regions import Emphasis, attention
from hushtune.privacy.accounting import Sums

PRIVACY = ht.Privacy(7.0, 1e-3, neighbours="zero-out")
CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0), y=ht.Float(0.0, 1.0)).sample(50)


def setting(clients: int = 40, method: ht.Thompson | None = None) -> Sharing:
    study = Study(CANDIDATES, method or ht.Thompson(), PRIVACY, ht.Curator()).settled(clients)
    return Sharing(Prospect(study, Sums(), lambda events: None, {}, True, 10, 0, ht.Silent()), 0.5)


@pytest.mark.parametrize("uses", ["last", "mean"])
@pytest.mark.parametrize("regions", [1, 4])
def test_the_cosine_is_that_of_simulated_openings(uses: str, regions: int) -> None:
    """Agents with one common vector of half the length that clipping allows; 400 openings each."""
    method = ht.Thompson(iterations=12, regions=regions, features=30, norm=3.0, uses=uses)  # type: ignore[arg-type]
    given, rng, iteration = setting(method=method), np.random.default_rng(0), 9
    multiplier = given.multiplier
    within = 3.0 / math.sqrt(regions)
    direction = rng.normal(size=30)
    common = 0.5 * within * direction / np.linalg.norm(direction)
    clean = np.tile(common, regions)
    scale = multiplier * Emphasis(40, regions, attention(iteration)).largest * within
    times = iteration if uses == "mean" else 1
    noise = rng.normal(size=(400, times, len(clean))).mean(axis=1) * scale
    found = (clean + noise) @ clean / np.linalg.norm(clean + noise, axis=1) / np.linalg.norm(clean)
    assert given.cosine(multiplier, iteration) == pytest.approx(found.mean(), abs=0.02)


def test_more_clients_and_less_noise_are_heard_better() -> None:
    multiplier = setting().multiplier
    heard = [setting(clients).last(multiplier) for clients in (10, 40, 400)]
    assert heard == sorted(heard)
    assert setting().last(multiplier) > setting().last(2 * multiplier)
    enough = setting().enough(multiplier)
    assert enough is not None
    assert setting(enough).last(multiplier) >= HEARD > setting(max(4, round(0.9 * enough))).last(multiplier)


@pytest.mark.long
def test_a_plan_says_when_sharing_is_hopeless_and_what_to_do() -> None:
    published = ht.Thompson(
        iterations=60,
        regions=4,
        features=100,
        norm=22,
        rate=0.35,
        decay=1.0,
        negligible=1 / 60,
        sends="sample",
        uses="last",
        final="surface",
    )
    found = ht.plan(
        29,
        CANDIDATES,
        privacy=replace(PRIVACY, delta=0.0246),
        method=published,
        seal=ht.Curator(),
        assume={"agreement": 0.33},
    )
    assert found.last < LOST
    assert found.verdict.startswith("HOPELESS")
    assert found.enough is not None
    assert found.enough > 100
    assert {other.what for other in found.instead} >= {"145 clients", "rate 1: nobody is left out"}
    many = ht.plan(20_000, CANDIDATES, privacy=PRIVACY, method=published, seal=ht.Curator())
    assert many.verdict.startswith("Likely to help")


def test_at_equal_epsilon_leaving_agents_out_hides_more_than_it_saves() -> None:
    """Why the default rate is 1: noise / rate is smaller without sampling."""
    heard = [setting(200, ht.Thompson(rate=rate)).heard("").cosine for rate in (0.1, 0.25, 0.5, 1.0)]
    assert heard == sorted(heard)


def test_alone_is_called_alone() -> None:
    found = ht.plan(29, CANDIDATES, privacy=PRIVACY, method=ht.Thompson(rounds=0), seal=ht.Curator())
    assert found.verdict.startswith("Nothing is shared")
    assert found.last == 0.0
    assert found.enough is None


def test_a_plan_reads_the_ledger_and_writes_nothing(tmp_path: Path) -> None:
    ledger = ht.Ledger(tmp_path / "ledger.db")
    found = ht.plan(29, 20, privacy=PRIVACY, method=ht.Thompson(), ledger=ledger)
    assert found.ledger is not None
    assert found.ledger["allowed"]
    assert not ledger.exists
    assert found.charge["epsilon"] <= 7.0
    assert found.charge["renyi"] >= found.charge["epsilon"] - 1e-9


@pytest.mark.parametrize("agreement", [0.0, 1.1, "much"])
def test_impossible_agreements_are_refused(agreement: float) -> None:
    with pytest.raises(ht.SettingError, match="agreement"):
        ht.plan(29, 20, privacy=PRIVACY, method=ht.Thompson(), assume={"agreement": agreement})
