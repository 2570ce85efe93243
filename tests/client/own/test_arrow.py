"""Parts of pyarrow tables: types, dictionaries and chunks follow from their own rows."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv
from tests.client.own.harness import changed

import hushtune as ht
from hushtune.client.encoding import encoded
from hushtune.client.own.arrow import own_arrow

pytestmark = pytest.mark.files

ONE = {"replace-one": 1, "add-remove": 1}


def look(part: Any) -> Any:
    if isinstance(part, ht.Rows):
        return look(part.X), look(part.y)
    if isinstance(part, pa.Array):
        return str(part.type), repr(part.to_pylist()), [buffer and buffer.to_pybytes() for buffer in part.buffers()]
    if isinstance(part, pa.ChunkedArray):
        return part.num_chunks, [look(chunk) for chunk in part.chunks]
    return str(part.schema), part.schema.metadata, [look(column) for column in part.columns]


def read(lines: list[str], **options: Any) -> pa.Table:
    content = "\n".join(["id,value", *lines]).encode()
    return csv.read_csv(
        pa.BufferReader(content), csv.ReadOptions(block_size=97), convert_options=csv.ConvertOptions(**options)
    )


ODD = ["x", "", "0.5", "1e300", "a very long text indeed"]
FINE = "2024-01-01T00:00:00.000000001"
COLUMNS = {  # and what one record of them may be, so that the reader takes the others for what they were
    "{n}": [*ODD, FINE],
    "{n}.25": [*ODD, FINE],
    "name {n}": [*ODD, FINE],
    "2024-01-{day:02}": ["", FINE, "2024-01-01T10:00:00"],
    "2024-01-{day:02}T10:00:00": ["", FINE],
    "true": ["", "false"],
}


@pytest.mark.parametrize(("column", "odd"), [(column, odd) for column, odds in COLUMNS.items() for odd in odds])
def test_one_record_changes_one_part(column: str, odd: str) -> None:
    records = [f"{n}," + column.format(n=n, day=n % 28 + 1) for n in range(60)]

    def in_rows(lines: list[str]) -> ht.Rows:
        whole = read(lines)
        return ht.Rows(whole.select(["id"]), whole["value"])

    def in_dictionaries(lines: list[str]) -> pa.Table:
        return read(lines, auto_dict_encode=True, auto_dict_max_cardinality=60)

    for build in (read, in_rows, in_dictionaries):
        assert changed(records, f"99,{odd}", build, look, 40) == ONE


def test_types_follow_from_values() -> None:
    day, moment = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1)
    alike: list[list[Any]] = [
        [
            pa.array([1, 2]),
            pa.array([1.0, 2.0]),
            pa.array(["1", "2"]),
            pa.array([1, 2], pa.uint8()),
            pa.array(["1", "2"]).dictionary_encode(),
            pa.array([b"1", b"2"]),
            pa.array(["1", "2"], pa.large_string()),
        ],
        [pa.array([1, None]), pa.array([1.0, None]), pa.array(["1", None]).dictionary_encode()],
        [pa.array(["a", "b"]), pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b"], pa.large_string())],
        [pa.array([day]), pa.array([day], pa.date64()), pa.array([moment], pa.timestamp("ns")), pa.array([moment])],
        [pa.array([[1], [2, 3], None]), pa.array([[1.0], [2.0, 3.0], None]), pa.array([["1"], ["2", "3"], None])],
        [pa.array([{"a": 1}, None]), pa.array([{"a": 1.0}, None])],
        [pa.array([None, None], pa.string()), pa.array([None, None], pa.timestamp("s")), pa.nulls(2)],
    ]
    for arrays in alike:
        assert len({repr(look(own_arrow(array))) for array in arrays}) == 1
        assert len({tuple(encoded([array])[0]) for array in arrays}) == 1


def test_a_table_is_one_chunk_without_metadata() -> None:
    chunks = pa.chunked_array([pa.array([1]), pa.array([2.0]).cast(pa.int64())])
    found = own_arrow(pa.table({"a": chunks}).replace_schema_metadata({"rows": "2"}))
    assert (found["a"].num_chunks, found.schema.metadata, found.to_pydict()) == (1, None, {"a": [1, 2]})
    batch = own_arrow(pa.record_batch({"a": [1.0, 2.0]}))
    assert isinstance(batch, pa.RecordBatch)
    assert batch.to_pydict() == {"a": [1, 2]}
