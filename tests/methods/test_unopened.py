"""A sealed sum: nobody is asked before it is opened, and what is opened is what was asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.errors import SettingError, WireError
from hushtune.methods.combine.tallies import ConfigSums
from hushtune.methods.unopened import Unopened
from hushtune.seals.forms import Form, form_from_json

SPACE = ht.Space(x=ht.Float(0.0, 1.0))
QUERY = ConfigSums(ht.Search(), SPACE.grid(x=4), (0.0, 1.0), 0.1, 4, "log", 1, False, 0.5, (0, 1))
SUM = {"counts": np.array([4, 0]), "sums": np.array([2, 0, 3, 0])}


def unopened(seen: list[Form]) -> Unopened:
    def answer(query: Any, form: Form) -> Any:
        seen.append(form)
        return form.of(SUM)

    return Unopened(QUERY, answer)


def test_it_is_lazy_and_opens_one_form() -> None:
    seen: list[Form] = []
    total = unopened(seen)
    mask = total["counts"].at_least(4)
    means = total["sums"].over(total["counts"], least=1)
    assert seen == []
    assert mask.open().tolist() == [1, 0]
    assert seen == [Form("counts", at_least=4)]
    found = means.open()
    assert found[[0, 2]].tolist() == [0.5, 0.75]
    assert np.isnan(found[[1, 3]]).all()
    assert total["counts"].open().tolist() == [4, 0]


def test_forms_that_make_no_sense_are_refused() -> None:
    total = unopened([])
    with pytest.raises(SettingError, match=r"has the blocks \['counts', 'sums'\], but got 'votes'"):
        total["votes"]
    with pytest.raises(SettingError, match="choose a block"):
        total.open()
    with pytest.raises(SettingError, match="must be a multiple"):
        total["counts"].over(total["sums"], 1)
    with pytest.raises(SettingError, match="not both"):
        total["sums"].over(total["counts"], 1).at_least(2)
    with pytest.raises(SettingError, match="least"):
        total["sums"].over(total["counts"], 0)
    with pytest.raises(SettingError, match="at_least"):
        total["counts"].at_least(0)
    with pytest.raises(SettingError, match="block of itself"):
        total["sums"].over(
            Unopened(ConfigSums(*[getattr(QUERY, f) for f in FIELDS], 0.0, ()), total.opener)["counts"], 1
        )


FIELDS = ("search", "domain", "losses", "within", "most", "scale", "unit", "shared")


def test_a_form_survives_the_wire() -> None:
    for form in (Form("counts", at_least=4), Form("sums", over="counts", least=2), Form("counts")):
        assert form_from_json(form.to_json()) == form
    assert form_from_json(None) is None
    for raw in ({}, {"block": 3}, {"block": "a", "more": 1}, {"block": "a", "over": 3, "least": 1}):
        with pytest.raises(WireError):
            form_from_json(raw)
