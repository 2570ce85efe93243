from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.wire import pack
from hushtune.seals.base import Protected
from hushtune.seals.ends import Ask, Outcome, converse
from hushtune.seals.plain import protect


def opened(replies: dict[str, Any], **changes: Any) -> Outcome:
    server = ht.Clear(dropouts=0.5).server("run", ht.Roster((*replies, "silent")), "terms")
    return converse(
        server.open(Ask(b"request", 3, 2**50, 5, True, None, 3, **changes)), lambda trip: replies, lambda: None
    )


REPLIES = {f"c{i}": protect(np.array([i, -i, 2**40])) for i in range(5)}


def test_the_sum_of_what_arrived() -> None:
    bad = {
        "bad": b"garbage",
        "short": protect(np.array([1, 2])),
        "no": pack({"kind": "refused", "reason": "policy"}),
    }
    total, missing, *_ = opened({**REPLIES, **bad})
    assert total.tolist() == [10, -10, 5 * 2**40]
    assert set(missing) == {"bad", "short", "no", "silent"}
    assert missing["no"] == "refused: policy"


@pytest.mark.parametrize("each", [False, True])
def test_single_vectors_are_opened_only_if_they_were_asked_for(each: bool) -> None:
    own = opened(REPLIES, each=each).own
    if not each:
        assert own is None
    else:
        assert own is not None
        assert {client: vector.tolist() for client, vector in own.items()} == {
            f"c{i}": [i, -i, 2**40] for i in range(5)
        }


@pytest.mark.parametrize("private", [False, True])
def test_the_statement_calls_it_insecure(private: bool) -> None:
    (line,) = ht.Clear().protects(Protected(5, False, private, 0.0))
    assert line.startswith("INSECURE SETTING, seal 'clear': the server sees ")
    assert ("not against the server" in line) == private
