"""The cells of seal 'quorum', with the same checks as all others and real node processes."""

from __future__ import annotations

import pytest
from tools.matrix import CELLS, PAGE, parsed, suite_of

import hushtune as ht
from hushtune.privacy.noise import skellam
from hushtune.testing import Outcome, check_noise, check_seal

pytestmark = pytest.mark.quorum

STATED = parsed(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "key",
    [key for key in CELLS if suite_of(key, STATED.get(key, Outcome("works"))) == "make test-quorum"],
    ids=" ".join,
)
def test_a_cell_turns_out_as_stated(key: tuple[str, str, str]) -> None:
    assert CELLS[key].check() == STATED[key], "README or docs/matrix.md says otherwise: run make matrix"


@pytest.mark.parametrize("nodes", [3, 5])
def test_the_seal(nodes: int) -> None:
    check_seal(ht.Quorum(nodes=nodes))


def test_half_the_noise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    share = skellam.sample
    monkeypatch.setattr(skellam, "sample", lambda variance, *given: share(variance / 2, *given))
    with pytest.raises(AssertionError, match="must have a variance of"):
        check_noise(ht.Quorum(nodes=3))
