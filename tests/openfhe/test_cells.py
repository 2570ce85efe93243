"""The cells of seal 'threshold', with the same checks as all others and the real thing."""

from __future__ import annotations

import pytest
from tools.matrix import CELLS, PAGE, parsed

import hushtune as ht
from hushtune.testing import check_seal

STATED = parsed(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("key", [key for key in CELLS if key[1] == "threshold"], ids=" ".join)
def test_a_cell_turns_out_as_stated(key: tuple[str, str, str]) -> None:
    assert CELLS[key].check() == STATED[key], "README or docs/matrix.md says otherwise: run make matrix"


def test_the_seal() -> None:
    check_seal(ht.Threshold(ring=2**14, smudging=0.0), clients=2)
