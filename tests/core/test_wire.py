from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushtune.core.errors import WireError
from hushtune.core.wire import pack, unpack, unpack_reply

HEADERS = st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8) | st.none(), max_size=4)


@given(HEADERS, st.lists(st.binary(max_size=40), max_size=3))
def test_round_trip(header: dict[str, Any], parts: list[bytes]) -> None:
    message = pack(header, *parts)
    assert unpack(message) == (header, parts)
    assert pack(header, *parts) == message


@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_wire_error(message: bytes) -> None:
    with contextlib.suppress(WireError):
        unpack(message)


@given(HEADERS, st.binary(max_size=20), st.data())
def test_a_cut_message_is_refused_or_lacks_its_part(header: dict[str, Any], part: bytes, data: st.DataObject) -> None:
    message = pack(header, part)
    cut = message[: data.draw(st.integers(0, len(message) - 1))]
    with contextlib.suppress(WireError):
        assert unpack(cut) == (header, [])


@pytest.mark.parametrize(
    "message", [b"", b"X", b"H\x02\0\0\0\x02{}", b"H\x01", b"H\x01\0\0\0\x02[]", b"H\x01\0\0\0\x01{"]
)
def test_foreign_messages_are_refused(message: bytes) -> None:
    with pytest.raises(WireError):
        unpack(message)


@pytest.mark.parametrize("text", [b'{"a":NaN}', b'{"a":Infinity}'])
def test_numbers_that_are_not_json_are_refused(text: bytes) -> None:
    with pytest.raises(WireError):
        unpack(b"H\x01" + len(text).to_bytes(4, "big") + text)


def test_deep_nesting_is_refused() -> None:
    text = b"[" * 100_000
    with pytest.raises(WireError):
        unpack(b"H\x01" + len(text).to_bytes(4, "big") + text)


def test_a_refusals_reason_is_short_and_printable() -> None:
    with pytest.raises(WireError) as caught:
        unpack_reply(pack({"kind": "refused", "reason": "\x1b[2J\ud800" + "x" * 10_000}))
    assert str(caught.value).startswith("refused: ?[2J?xxx")
    assert len(str(caught.value)) < 400
    with pytest.raises(WireError, match="no reply"):
        unpack_reply(None)


def test_the_order_of_a_header_survives() -> None:
    header = {"z": 1, "a": {"y": 2, "b": 3}}
    again, _ = unpack(pack(header))
    assert list(again) == ["z", "a"]
    assert list(again["a"]) == ["y", "b"]
