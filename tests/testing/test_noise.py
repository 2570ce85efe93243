"""The suite measures noise: hushtune's own is as stated, and noise that is not is found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.client.harness import ROSTER, refusal, request
from tests.conftest import distance

import hushtune as ht
from hushtune.client import release
from hushtune.core.randomness import SimulatedRandomness
from hushtune.federation import local
from hushtune.privacy.noise import selection, skellam
from hushtune.privacy.noise.base import Noise
from hushtune.seals.oracle import MECHANISMS
from hushtune.seals.plain import vector_of
from hushtune.testing import cells, check_noise
from hushtune.testing.marks import Marks, check_tests
from hushtune.testing.noise import measured
from hushtune.testing.numbers import Numbers

Patch = pytest.MonkeyPatch
PARTIES = [ht.Clear(), ht.Masked()]
SHARE, BY_CURATOR, ANSWER, CONTRIBUTION = Noise.share, Noise.by_curator, release._answer, release.contributions
VARIANCE = "must have a variance of"
BEYOND = "noise must be what clients can send, but the run says|must be in the sum like others"


@pytest.mark.statistical
@pytest.mark.parametrize("unit", ["client", "record"])
@pytest.mark.parametrize("seal", [*PARTIES, ht.Clear(0.3, 0.2), ht.Curator()], ids=str)
def test_hushtunes_own_noise(seal: Any, unit: Any) -> None:
    """Six comparisons, each with false alarms < 1e-8. Seal 'threshold' is in tests/openfhe."""
    check_noise(seal, unit)


def none(patch: Patch) -> None:
    patch.setattr(Noise, "share", lambda self, honest, size, randomness: np.zeros(size, dtype=np.int64))


def half(patch: Patch) -> None:
    patch.setattr(
        Noise,
        "share",
        lambda self, honest, size, randomness: skellam.sample(self.share_variance(honest) / 2, size, randomness),
    )


def nine_tenths_of_the_deviation(patch: Patch) -> None:
    patch.setattr(
        Noise,
        "share",
        lambda self, honest, *given: skellam.sample(self.share_variance(honest) * 81 / 100, *given),
    )


def the_same_from_all(patch: Patch) -> None:
    patch.setattr(local, "SimulatedRandomness", lambda seed, label: SimulatedRandomness(seed, "same"))


def one_draw_for_all_entries(patch: Patch) -> None:
    patch.setattr(Noise, "share", lambda self, honest, size, drawn: np.repeat(SHARE(self, honest, 1, drawn), size))


def none_from_whoever_fails(patch: Patch) -> None:
    failed: list[bool] = []

    def contributions(query: Any, inside: Any, *given: Any, **named: Any) -> Any:
        vector = CONTRIBUTION(query, inside, *given, **named)
        failed[:] = [not vector.any()]
        return vector

    def share(self: Noise, honest: int, size: int, drawn: Any) -> Any:
        return SHARE(self, honest, size, drawn) * (not failed[0])

    patch.setattr(release, "contributions", contributions)
    patch.setattr(Noise, "share", share)


def too_little_for_the_honest(patch: Patch) -> None:
    """As if nobody could drop out or add none; the result says so, too."""
    for seal in (ht.Clear, ht.Masked):
        patch.setattr(seal, "honest", lambda self, clients: clients)


def unchecked(patch: Patch) -> None:
    def answer(query: Any, inside: Any, private: bool, asked: bytes) -> Any:
        try:
            return query.answer(inside)
        except Exception:
            return query.bound.default(inside.randomness)

    patch.setattr(release, "_answer", answer)


@pytest.mark.parametrize("seal", PARTIES, ids=lambda seal: seal.name)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (none, VARIANCE),
        (half, VARIANCE),
        (nine_tenths_of_the_deviation, VARIANCE),
        (the_same_from_all, f"{VARIANCE}|{BEYOND}"),
        (one_draw_for_all_entries, BEYOND),
        (none_from_whoever_fails, VARIANCE),
        (too_little_for_the_honest, "must state its noise's variance"),
        (unchecked, BEYOND),
    ],
)
def test_what_is_found_out_about_shares(
    seal: Any, change: Callable[[Patch], None], message: str, monkeypatch: Patch
) -> None:
    change(monkeypatch)
    for unit in ("client", "record"):
        with pytest.raises(AssertionError, match=message):
            check_noise(seal, unit)  # type: ignore[arg-type]


def test_noise_that_is_used_twice(monkeypatch: Patch) -> None:
    def share(self: Noise, honest: int, size: int, drawn: Any) -> Any:
        return SHARE(self, honest, size, SimulatedRandomness(0, str(drawn._key)))

    monkeypatch.setattr(Noise, "share", share)
    with pytest.raises(AssertionError, match="the difference of two sums' noise must have a variance"):
        check_noise(ht.Clear())


@pytest.mark.parametrize("factor", [0, 0.9, 2])
def test_a_curators_noise(factor: float, monkeypatch: Patch) -> None:
    def by_curator(self: Noise, size: int, drawn: Any) -> Any:
        return np.rint(BY_CURATOR(self, size, drawn) * factor).astype(np.int64)

    monkeypatch.setattr(Noise, "by_curator", by_curator)
    with pytest.raises(AssertionError, match=VARIANCE):
        check_noise(ht.Curator())


def test_an_unchecked_answer_under_a_curator(monkeypatch: Patch) -> None:
    unchecked(monkeypatch)
    with pytest.raises(AssertionError, match=BEYOND):
        check_noise(ht.Curator())


@pytest.mark.parametrize("unit", ["client", "record"])
@pytest.mark.parametrize(
    ("name", "factor", "what"),
    [
        ("permute_and_flip", 2, "permute-and-flip"),
        ("exponential", 2, "the exponential mechanism"),
        ("noisiest", 2, "a maximum under geometric noise"),
        ("above_threshold", 2, "a noisy threshold"),
        ("above_threshold", 1000, "a noisy threshold"),
    ],
)
def test_a_curators_tests_with_less_noise(name: str, factor: int, what: str, unit: Any, monkeypatch: Patch) -> None:
    """The scale comes after the sums, and after the threshold where there is one."""
    real, at = getattr(selection, name), 2 if name == "above_threshold" else 1

    def quieter(*given: Any) -> Any:
        return real(*given[:at], max(1, int(given[at]) // factor), *given[at + 1 :])

    monkeypatch.setattr(selection, name, quieter)
    for mechanism, choose in MECHANISMS.items():
        monkeypatch.setitem(MECHANISMS, mechanism, quieter if choose is real else choose)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=f"{what} must tell good scores from bad ones with chance"):
        check_tests(ht.Curator(), unit, clients=10, seed=7)


def test_an_unchecked_answer_to_a_curators_tests(monkeypatch: Patch) -> None:
    unchecked(monkeypatch)
    with pytest.raises(AssertionError, match="must be in the sums like others, but 1 are not"):
        check_tests(ht.Curator(), "client", clients=10, seed=7)


@pytest.mark.parametrize("noise", ["client", "record"])
def test_every_cell_with_epsilon_measures_it(noise: str, monkeypatch: Patch) -> None:
    measured.cache_clear()
    half(monkeypatch)
    (cell,) = (cell for cell in cells(ht.Vote(k=2), seals=[ht.Masked()]) if cell.noise == noise)
    with pytest.raises(AssertionError, match=f"vote masked {noise}: the first sum's noise {VARIANCE}"):
        cell.check()


def test_clients_with_data_of_their_own_have_no_answer(tmp_path: Path) -> None:
    """Whoever imports the suites makes their query known; what it asks for is what the suites' own clients hold."""
    query = Numbers(0, 4)
    clients = [ht.Client((np.zeros((4, 1)), np.arange(4)), distance, name=name) for name in ROSTER.ids]
    inside = local.LocalFederation(clients, tmp_path, seed=0).parties[ROSTER.ids[0]]
    wanted = request(query=query, noise=Noise(0.0), privacy=None, events=()).to_bytes()
    assert "objective failed" in refusal(release.respond(wanted, inside, ROSTER))
    assert "is for clients of hushtune.testing only" in (inside.folder / "client.log").read_text()
    noise, privacy = Noise(1e3), ht.Privacy(8.0)
    events = (query.bound.event(noise, privacy.change),)
    wanted = request(query=query, noise=noise, privacy=privacy, events=events).to_bytes()
    drawn = SimulatedRandomness(0, inside.id)
    reply = vector_of(release.respond(wanted, inside, ROSTER), 4)
    assert reply.tolist() == noise.share(ht.Clear().honest(len(ROSTER)), 4, drawn).tolist()
    wanted = request(query=Marks(), noise=Noise(0.0), privacy=None, events=()).to_bytes()
    assert "objective failed" in refusal(release.respond(wanted, inside, ROSTER))
