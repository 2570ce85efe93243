from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtune.core import codec
from hushtune.core.codec import fields_from_json, fields_to_json, plain, reads


@dataclass(frozen=True)
class Point:
    """Writes itself in another way than field by field."""

    x: int

    def to_json(self) -> str:
        return f"<{self.x}>"


@dataclass(frozen=True)
class Shape:
    name: str
    sizes: tuple[int, ...] = ()
    centre: Point | None = None
    corners: tuple[Point, ...] = ()
    grid: tuple[tuple[float, ...], ...] | None = None
    note: int | str | None = None


@pytest.fixture(autouse=True)
def point_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_READERS", dict(codec._READERS))
    reads(Point, lambda text: Point(int(text[1:-1])))


POINTS = st.builds(Point, st.integers())
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SHAPES = st.builds(
    Shape,
    name=st.text(),
    sizes=st.lists(st.integers()).map(tuple),
    centre=st.none() | POINTS,
    corners=st.lists(POINTS).map(tuple),
    grid=st.none() | st.lists(st.lists(NUMBERS).map(tuple)).map(tuple),
    note=st.none() | st.integers() | st.text(),
)


def test_every_dataclass_comes_back_from_json_as_it_was(point_reader: None) -> None:
    @given(SHAPES)
    def check(shape: Shape) -> None:
        raw = json.loads(json.dumps(fields_to_json(shape)))
        assert Shape(**fields_from_json(Shape, raw)) == shape

    check()


def test_a_value_with_a_way_of_its_own_is_written_that_way_wherever_it_stands() -> None:
    shape = Shape("a", centre=Point(3), corners=(Point(1), Point(2)))
    assert fields_to_json(shape) == {
        "name": "a",
        "sizes": [],
        "centre": "<3>",
        "corners": ["<1>", "<2>"],
        "grid": None,
        "note": None,
    }
    assert plain([(1, Point(4))]) == [[1, "<4>"]]


def test_only_named_fields_are_given_so_that_the_class_itself_says_what_is_missing_or_unknown() -> None:
    assert fields_from_json(Shape, {"sizes": [1]}) == {"sizes": (1,)}
    unknown = fields_from_json(Shape, {"name": "a", "colour": [1]})
    assert unknown["colour"] == [1]
    with pytest.raises(TypeError, match="colour"):
        Shape(**unknown)


@pytest.mark.parametrize("value", ["text", 3, {"a": 1}, None])
def test_what_is_no_list_passes_through_to_the_checks_of_the_class(value: object) -> None:
    assert fields_from_json(Shape, {"sizes": value}) == {"sizes": value}


def test_a_reader_of_the_exact_type_goes_before_everything_else() -> None:
    reads(tuple[int, ...], sum)
    assert fields_from_json(Shape, {"sizes": [1, 2]}) == {"sizes": 3}
