from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushtune as ht
from hushtune.core.errors import WireError
from hushtune.seals.forms import Form, form_from_json, in_blocks

BLOCKS = {"counts": 2, "sums": 6}
SUM = {"counts": np.array([4, 0]), "sums": np.array([2, 5, -8, 0, 1, -1])}
FORMS = [Form("counts"), Form("counts", at_least=3), Form("sums", over="counts", least=6, step=2)]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_form_survives_the_wire_and_can_be_computed(form: Form) -> None:
    assert form_from_json(json.loads(json.dumps(form.to_json()))) == form
    form.check(BLOCKS)
    assert len(form.of(SUM)) == form.length(BLOCKS)
    assert form_from_json(None) is None


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=9), st.integers(1, 2**40))
def test_a_mask_shows_which_entries_are_at_least_a_number_and_nothing_else(values: list[int], least: int) -> None:
    mask = Form("votes", at_least=least).of({"votes": np.array(values)})
    assert mask.tolist() == [int(value >= least) for value in values]
    assert mask.dtype == np.int64


@given(st.data(), st.integers(1, 4), st.integers(1, 4))
def test_a_quotient_goes_through_the_blocks_below_again_and_again(data: st.DataObject, length: int, times: int) -> None:
    below = data.draw(st.lists(st.integers(-5, 2**20), min_size=length, max_size=length))
    above = data.draw(st.lists(st.integers(-(2**30), 2**30), min_size=length * times, max_size=length * times))
    got = Form("a", over="b", least=1).of({"a": np.array(above), "b": np.array(below)})
    for at, value in enumerate(above):
        count = below[at % length]
        assert got[at] == value / count if count > 0 else np.isnan(got[at])


def test_a_block_as_it_is_stays_integers() -> None:
    assert Form("counts").of(SUM) is SUM["counts"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"at_least": 2, "over": "counts", "least": 1}, "compared or divided before it is opened, but not both"),
        ({"at_least": 0}, "`1 <= at_least <= 1099511627776` must hold for an integer, but got at_least=0"),
        ({"at_least": 2.5}, "at_least=2.5"),
        ({"at_least": True}, "at_least=True"),
        ({"over": "counts"}, "least=None"),
        ({"over": "counts", "least": 0}, "least=0"),
        ({"over": "counts", "least": 3, "step": 0}, "step=0"),
        ({"over": "counts", "least": 3, "step": 2}, "least must be a multiple of step, but got least=3, step=2"),
    ],
)
def test_what_means_nothing_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        Form("sums", **fields)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (Form("votes"), r"the query has the blocks \['counts', 'sums'\], but got 'votes'"),
        (Form("sums", over="votes", least=1), "but got 'votes'"),
        (Form("counts", over="sums", least=1), "the length of 'counts' must be a multiple of that of 'sums'"),
    ],
)
def test_a_form_is_checked_against_the_blocks_of_its_query(form: Form, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        form.check(BLOCKS)


@pytest.mark.parametrize(
    "raw",
    [{"block": 3}, {"block": None}, {"block": "a", "over": 3, "least": 1}, {}, {"block": "a", "power": 2}, [], "a"],
)
def test_a_servers_form_is_read_strictly(raw: Any) -> None:
    with pytest.raises(WireError):
        form_from_json(raw)


def test_the_words_say_what_is_seen() -> None:
    assert [form.words for form in FORMS] == [
        "the counts",
        "which of the counts are at least 3",
        "the sums divided by the counts",
    ]


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 5), min_size=1, max_size=5))
def test_blocks_are_cut_in_their_order_and_nothing_is_lost(blocks: dict[str, int]) -> None:
    vector = np.arange(sum(blocks.values()))
    parts = in_blocks(blocks, vector)
    assert list(parts) == list(blocks)
    assert {name: len(part) for name, part in parts.items()} == blocks
    assert np.concatenate(list(parts.values())).tolist() == vector.tolist()
