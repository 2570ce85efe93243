"""The cells of seal 'threshold', with the same checks as all others and the real thing."""

from __future__ import annotations

import pytest
from tools.matrix import CELLS, PAGE, parsed

import hushtune as ht
from hushtune.privacy.noise.base import Noise, skellam
from hushtune.testing import check_noise, check_seal

pytestmark = pytest.mark.mhe

STATED = parsed(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("key", [key for key in CELLS if key[1] == "threshold"], ids=" ".join)
def test_a_cell_turns_out_as_stated(key: tuple[str, str, str]) -> None:
    assert CELLS[key].check() == STATED[key], "README or docs/matrix.md says otherwise: run make matrix"


def test_the_seal() -> None:
    check_seal(ht.Threshold(ring=2**14, smudging=0.0), clients=2)


def test_half_the_noise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Noise, "share", lambda self, honest, *given: skellam.sample(self.share_variance(honest) / 2, *given)
    )
    with pytest.raises(AssertionError, match="must have a variance of"):
        check_noise(ht.Threshold(ring=2**14, smudging=8.0), clients=2)
