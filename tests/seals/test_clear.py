from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.wire import pack
from hushtune.seals.base import floor_share
from hushtune.seals.ends import Ask, converse
from hushtune.seals.plain import protect


def test_shares_are_counted_with_exact_arithmetic() -> None:
    """As floats, 1 - .2 - .1 is above .7, and .7 * 10 rounds up to 8."""
    seal = ht.Clear(dropouts=0.2, corrupt=0.1)
    assert seal.honest(10) == 7
    assert seal.needed(10) == 8
    assert floor_share(0.29, 100) == 29
    assert floor_share(0.3, 10) == 3
    assert floor_share(1e-5, 100_000) == 1
    for clients in range(10, 400):
        assert seal.honest(clients) == clients - clients * 2 // 10 - clients // 10


@pytest.mark.parametrize("seal", [ht.Clear(), ht.Masked(), ht.Masked(dropouts=0, corrupt=0), ht.Threshold()])
def test_what_a_client_can_subtract_never_carries_the_noise(seal: ht.Seal) -> None:
    """A reader of the opened sum knows its own share: the others' alone have the whole variance, however few."""
    for clients in range(2, 60):
        noise = seal.noise(12.0)
        assert noise.share_variance(seal.honest(clients)) * (seal.needed(clients) - 1) >= noise.variance
    assert seal.honest(1) == 1
    assert [seal.honest(clients) for clients in (2, 3, 9)] == [1, 2, 8]


def test_the_sum_of_what_arrived() -> None:
    replies = {f"c{i}": protect(np.array([i, -i, 2**40])) for i in range(5)}
    replies |= {
        "bad": b"garbage",
        "short": protect(np.array([1, 2])),
        "no": pack({"kind": "refused", "reason": "policy"}),
    }
    roster = ht.Roster((*replies, "silent"))
    server = ht.Clear(dropouts=0.5).server("run", roster, "terms")
    total, missing, *_ = converse(server.open(Ask(b"request", 3, 2**50, 5, True, None, 3)), lambda trip: replies, int)
    assert total.tolist() == [10, -10, 5 * 2**40]
    assert set(missing) == {"bad", "short", "no", "silent"}
    assert missing["no"] == "refused: policy"


@pytest.mark.parametrize("arguments", [{"dropouts": 1.0}, {"dropouts": -0.1}, {"corrupt": float("nan")}])
def test_bad_shares(arguments: dict[str, float]) -> None:
    with pytest.raises(ht.SettingError, match="must hold"):
        ht.Clear(**arguments)
