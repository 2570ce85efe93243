"""The benchmark itself takes minutes and OpenFHE; that it asks for what there is can be told without them."""

from __future__ import annotations

import ast
from itertools import chain
from pathlib import Path

from experiments.speed import mhe
from hushtune.seals import threshold


def test_every_primitive_that_is_measured_is_one_of_the_sidecars() -> None:
    tree = ast.parse((Path(threshold.__file__).parent / "sidecar.py").read_text(encoding="utf-8"))
    known = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert set(chain(*mhe._PRIMITIVES.values(), mhe._KEYS)) - {"begin"} <= known  # which makes the sidecar


def test_an_opening_with_keys_is_what_they_took_and_what_it_takes() -> None:
    first, again, other = (dict.fromkeys(mhe._SPENT, amount) for amount in (7.0, 1.0, 2.5))
    assert mhe.with_keys(first, again, other) == dict.fromkeys(mhe._SPENT, 8.5)


def test_rings_are_powers_of_two_that_the_seal_takes() -> None:
    for ring in mhe.RINGS.values():
        assert mhe.Threshold(ring=ring, smudging=0.0).ring == ring
