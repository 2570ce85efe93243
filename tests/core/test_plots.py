from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.plots import along, described, knob_ends, levels, round_ticks, short, svg_of
from hushtune.core.svg import Area, Axis

SPACE = ht.Space(rate=ht.Float(1e-4, 1.0, log=True), depth=ht.Int(1, 9), kind=ht.Choice(["a", "b", "c"]))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-38.2, 91.0), (0, 100_000), (-0.5, 0.5)])
def test_ticks_are_round_and_cover_the_range(low: float, high: float) -> None:
    found = round_ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 3 <= len(found) <= 9


def test_levels_lie_at_their_ticks() -> None:
    first, name, *_ = levels(Area(60.0, 10.0, 500.0, 100.0), Axis("", [0, 1000]))
    assert 'y1="110.0"' in first
    assert ">0</text>" in name
    assert len(levels(Area(60.0, 10.0, 500.0, 100.0), Axis("", [0, 1000]))) == 4


def test_a_knobs_axis_has_its_ends_or_its_choices_below() -> None:
    assert knob_ends(SPACE, "rate") == [("0.0001", 0.0), ("1", 1.0)]
    assert knob_ends(SPACE, "kind") == [("a", 0.0), ("b", 0.5), ("c", 1.0)]
    assert knob_ends(ht.Space(only=ht.Choice(["one"])), "only") == [("one", 0.0)]


def test_configs_lie_along_a_knob_as_the_space_says() -> None:
    configs = [{"rate": 1e-2, "depth": 1, "kind": "b"}, {"rate": 1.0, "depth": 9, "kind": "c"}]
    points = SPACE.encode(configs)
    assert along(SPACE, "rate", points) == pytest.approx([0.5, 1.0])
    assert along(SPACE, "kind", points).tolist() == [0.5, 1.0]
    depth = along(SPACE, "depth", points)
    assert np.all((depth >= 0) & (depth <= 1))
    assert depth[0] < depth[1]


def test_values_are_short() -> None:
    assert [short(value) for value in (0.123456, 12, "adam", "a very long name")] == [
        "0.123",
        "12",
        "adam",
        "a very long…",
    ]
    assert described({"x": 0.25, "y": "adam"}) == "x=0.25, y=adam"


def test_a_plot_has_a_name_and_the_pages_width() -> None:
    assert svg_of("counts", 120, ["<g/>"]) == (
        '<svg id="counts" class="plot" role="img" viewBox="0 0 900 120">\n<g/>\n</svg>'
    )
