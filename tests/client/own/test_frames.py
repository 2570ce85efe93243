"""Parts of pandas tables: types, categories and the index follow from their own rows."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.client.own.harness import changed, described

import hushtune as ht
from hushtune.client.encoding import encoded
from hushtune.client.own.frames import own_frame

pytestmark = pytest.mark.files

ONE = {"replace-one": 1, "add-remove": 1}
DAY = pd.Timestamp("2024-01-01")
KINDS = {
    "whole": list(range(60)),
    "real": [n + 0.25 for n in range(60)],
    "truth": [n % 2 == 0 for n in range(60)],
    "text": [f"name {n}" for n in range(60)],
    "day": [DAY + pd.Timedelta(days=n) for n in range(60)],
    "zoned": [DAY.tz_localize("Europe/Berlin") + pd.Timedelta(hours=n) for n in range(60)],
    "span": [pd.Timedelta(hours=n) for n in range(60)],
    "month": [pd.Period("2024-01", "M") + n for n in range(60)],
}
ODD = [None, np.nan, pd.NA, pd.NaT, "text", "a new category", 0.5, 1e300, 2**60 + 1, 2**100, 10**400, True, DAY]
ODD += [
    pd.Timestamp("2024-01-01 00:00:00.000000001"),
    dt.datetime(3000, 1, 1),
    dt.date(2024, 1, 1),
    DAY.tz_localize("UTC"),
]


def look(part: Any) -> Any:
    """Every column: its type with categories, its values with their types; the index."""
    if isinstance(part, ht.Rows):
        return look(part.X), look(part.y)
    if isinstance(part, pd.DataFrame):
        return repr(part.index), repr(part.columns), [look(part.iloc[:, at]) for at in range(part.shape[1])]
    kind = repr(part.dtype), repr(getattr(part.dtype, "categories", None)), str(part.name)
    return kind, repr(part.index), [(type(item).__name__, repr(item)) for item in part.tolist()], described(part)


def table(records: list[Any]) -> pd.DataFrame:
    values = [row[1] for row in records]
    try:
        column = pd.Series(values)
    except OverflowError:  # pandas 2, on integers beyond all doubles
        column = pd.Series(values, dtype=object)
    return pd.DataFrame({"id": [row[0] for row in records], "value": column})


def category(records: list[Any]) -> pd.DataFrame:
    found = table(records)
    first = pd.unique(found["value"].astype(object).dropna())  # in the order in which they come
    return found.assign(value=pd.Categorical(found["value"].astype(object), categories=first))


def nullable(records: list[Any]) -> pd.DataFrame:
    try:
        return table(records).convert_dtypes()
    except OverflowError:
        return table(records)


def labelled(records: list[Any]) -> pd.DataFrame:
    return table(records).set_index(pd.Index([f"row {row[0]}" for row in records]))


def rows(records: list[Any]) -> ht.Rows:
    found = table(records)
    return ht.Rows(found[["id"]], found["value"])


BUILDS = [table, category, nullable, labelled, rows]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_record_changes_one_part(build: Any, kind: str) -> None:
    records = [[n, value] for n, value in enumerate(KINDS[kind])]
    for odd in ODD:
        if build is category and isinstance(odd, int) and odd > 2**200:
            continue  # pandas 2 has no such category
        assert changed(records, [99, odd], build, look, 21) == ONE, odd


@pytest.mark.parametrize("cell", [lambda n: [n, n + 1], lambda n: {"a": n}, lambda n: np.array([n, 2 * n])])
def test_cells_that_hold_several_values_stay_as_they_are(cell: Any) -> None:
    cells = [cell(n) for n in range(4)]
    found = own_frame(pd.DataFrame({"id": range(4), "value": pd.Series(cells, dtype=object)}))
    assert found["value"].dtype == object
    assert [repr(value) for value in found["value"]] == [repr(value) for value in cells]


def test_records_of_categories_and_text_columns_stay_where_they_are() -> None:
    """As a file is read: one text makes a column of texts, which hold the numbers of all others."""
    import io

    records = [f"{n},{n % 7}" for n in range(60)]

    def read(lines: list[str], **options: Any) -> pd.DataFrame:
        return pd.read_csv(io.StringIO("\n".join(["id,value", *lines])), **options)

    for odd in ("99,x", "99,", "99,0.5", "99,1e300", f"99,{2**70}", "99,True"):
        assert changed(records, odd, read, look, 33) == ONE, odd
        assert changed(records, odd, lambda lines: read(lines, dtype={"value": "category"}), look, 33) == ONE, odd
        assert changed(records, odd, lambda lines: read(lines, dtype=object), look, 33) == ONE, odd


@pytest.mark.parametrize("build", BUILDS)
def test_a_record_counts_by_its_values_in_any_table(build: Any) -> None:
    records = [[n, n % 3] for n in range(20)]
    data = build(records)
    columns = [data.X, data.y] if isinstance(data, ht.Rows) else [data]
    plain = [[[n], n % 3] for n in range(20)] if isinstance(data, ht.Rows) else records
    assert (
        encoded(columns)[0]
        == encoded([[row[0] for row in plain], [row[1] for row in plain]] if len(columns) == 2 else [plain])[0]
    )


def test_pandas_own_values_count_like_pythons() -> None:
    alike: list[list[Any]] = [
        [pd.NA, pd.NaT, None, np.nan],
        [pd.Timestamp("2024-03-01"), pd.Timestamp("2024-03-01", tz="UTC"), dt.date(2024, 3, 1), "2024-03-01"],
        [pd.Timestamp("2024-03-01 01:00", tz="Europe/Berlin"), pd.Timestamp("2024-03-01").as_unit("s")],
        [pd.Timestamp("2024-03-01 00:00:00.000000001"), np.datetime64("2024-03-01T00:00:00.000000001")],
        [pd.Timedelta("1h"), dt.timedelta(hours=1), np.timedelta64(60, "m")],
    ]
    for values in alike:
        assert len(set(encoded([values])[0])) == 1
    assert len({encoded([values])[0][0] for values in [*alike[:2], *alike[3:]]}) == 4


def test_categories_are_those_that_occur_in_the_order_of_their_values() -> None:
    column = pd.Series(pd.Categorical(["b", "a", "b"], categories=["z", "b", "a", "c"]))
    assert own_frame(column).cat.categories.tolist() == ["a", "b"]
    ordered = pd.Series(pd.Categorical(["low", "high"], categories=["none", "low", "mid", "high"], ordered=True))
    assert own_frame(ordered).cat.categories.tolist() == ["low", "high"]
    assert own_frame(ordered).cat.ordered
    numbers = pd.Series(pd.Categorical(["2", "10", None], categories=["10", "2", "x"]))
    assert own_frame(numbers).cat.categories.tolist() == [2, 10]
    assert own_frame(numbers).tolist()[:2] == [2, 10]


def test_an_index_and_an_array_of_pandas_own() -> None:
    assert own_frame(pd.Index(["1", "2"])).tolist() == [1, 2]
    found = own_frame(pd.Categorical(["b", "a"], categories=["c", "b", "a"]))
    assert (type(found), found.categories.tolist()) == (pd.Categorical, ["a", "b"])


def test_a_vote_of_records_in_a_table(tmp_path: Path) -> None:
    """Through whole runs: every part is scored once, and a second run finds all trials in the cache."""
    frame = pd.DataFrame({"x": np.arange(40.0), "kind": pd.Categorical(["a", "b"] * 20)})
    noted = tmp_path / "scored"

    class Mean:
        def fingerprint(self) -> str:
            return "mean"

        def losses(self, configs: Any, data: Any, seed: int) -> Any:
            with noted.open("a") as file:
                file.write(f"{len(data)}\n")
            return np.array([abs(config["x"] - data.X["x"].mean()) for config in configs])

    candidates = ht.Space(x=ht.Float(0.0, 40.0)).grid(x=5)
    privacy = ht.Privacy(5.0, unit="record", neighbours="add-remove")
    for folder in ("one", "two"):
        clients = [
            ht.Client(ht.Rows(frame, frame["x"] > 20), Mean(), ledger=ht.Ledger(tmp_path / folder / f"{n}.db"))
            for n in range(3)
        ]
        ledger = ht.Ledger(tmp_path / folder / "coordinator.db")
        ht.tune(
            clients,
            candidates,
            method=ht.Vote(1, voters=4),
            privacy=privacy,
            ledger=ledger,
            observer=ht.Silent(),
            jobs=1,
        )
        assert sum(map(int, noted.read_text().split())) == 3 * 40
