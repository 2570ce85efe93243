from __future__ import annotations

from hushtune.core.words import counted


def test_one_is_no_plural() -> None:
    assert [counted(number, "client") for number in (0, 1, 2)] == ["0 clients", "1 client", "2 clients"]
