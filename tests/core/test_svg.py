from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtune.core.svg import Area, Axis, bar, decades, dot, legend, panel, picture, polyline, text, whisker

AREA = Area(100.0, 50.0, 400.0, 200.0)
LINEAR, LOG = Axis("steps", [0, 5, 10]), Axis("clients", [1, 10, 100], log=True)


def test_an_axis_goes_from_its_first_tick_to_its_last() -> None:
    assert [LINEAR.at(value) for value in (0, 2.5, 10)] == [0, 0.25, 1]
    assert [LOG.at(value) for value in (1, 10, 100)] == pytest.approx([0, 0.5, 1])


def test_ticks_are_shown_as_numbers_or_as_the_words_for_them() -> None:
    axis = Axis("epsilon", [1, 10_000], words={10_000: "no noise"})
    assert [axis.word(tick) for tick in axis.ticks] == ["1", "no noise"]
    assert LINEAR.word(12_345) == "12,345"


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5))
def test_decades_cover_all_values(values: list[float]) -> None:
    axis = decades("x", values)
    assert axis.log
    assert axis.ticks[0] <= min(values) * (1 + 1e-9)
    assert axis.ticks[-1] >= max(values) * (1 - 1e-9)
    assert len(axis.ticks) >= 2


def test_a_picture_grows_downwards_and_a_plot_upwards() -> None:
    assert AREA.place(LINEAR, LINEAR, (0, 0)) == (100.0, 250.0)
    assert AREA.place(LINEAR, LINEAR, (10, 10)) == (500.0, 50.0)


def test_a_whole_picture_is_well_formed_whatever_it_is_called() -> None:
    nasty = "<script>\"&'</script>"
    drawn = panel(
        AREA,
        nasty,
        Axis(nasty, [0, 10], words={0: nasty}),
        Axis(nasty, [0, 10]),
        {nasty: [(0, 0), (10, 10)], "b": [(5, 5)]},
        dashed={nasty: [(0, 1), (10, 1)]},
        labels=True,
    )
    more = [legend(0, 0, [nasty]), text(0, 0, nasty), bar(0, 0, 1, 1), dot(0, 0, 1), polyline([(0, 0)], "line")]
    root = ElementTree.fromstring(picture(640, 320, drawn, *more, whisker(AREA, LINEAR, LINEAR, 5, (2, 4), 1)))
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("viewBox") == "0 0 640 320"
    assert {child.tag.removeprefix(space) for child in root.iter()} == {
        "svg", "style", "text", "line", "polyline", "circle", "rect",
    }  # fmt: skip
    assert [one.text for one in root.iter(f"{space}text")].count(nasty) >= 5
    assert len([one for one in root.iter(f"{space}polyline") if "dashed" in one.get("class", "")]) == 1


def test_every_series_has_a_colour_of_its_own() -> None:
    drawn = panel(AREA, "", LINEAR, LINEAR, {"a": [(0, 0)], "b": [(1, 1)]})
    assert 'class="line s0"' in drawn
    assert 'class="line s1"' in drawn
