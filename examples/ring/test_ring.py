"""The conformance suite, over a seal from outside the package."""

from __future__ import annotations

from hushtune_ring import Ring

import hushtune as ht
from hushtune.testing import check_noise, check_seal


def test_it_opens_the_exact_sum_or_nothing() -> None:
    check_seal(Ring(), clients=4)


def test_its_noise_is_what_the_cost_was_computed_from() -> None:
    check_noise(Ring(), clients=4)


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    return float(abs(config["x"] - data.y[0]))


def test_a_vote_under_it() -> None:
    policy = ht.Policy(insecure=True)  # by default a client refuses a seal that calls itself insecure
    clients = [ht.Client(([[0.0]], [0.5]), distance, name=f"c{at}", policy=policy) for at in range(4)]
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
    result = ht.tune(clients, candidates, method=ht.Vote(1), seal=Ring(), observer=ht.Silent(), jobs=1)
    assert result.config == {"x": 0.5}
    assert "INSECURE SETTING, seal 'ring'" in result.statement
