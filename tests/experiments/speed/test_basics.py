from __future__ import annotations

from experiments.speed.basics import STARTS, rows
from hushtune.core.observer import Silent


def test_rows() -> None:
    found = {(row["name"], row.get("pinned")): row for row in rows(2_000, 1, Silent())}
    assert [name for name, _ in found][: len(STARTS)] == list(STARTS)
    modules = [found[name, None]["modules"] for name in STARTS]
    assert modules[0] < modules[1] < modules[2]
    shares = found["noise shares", None]
    assert shares["variance"] / 3 < shares["drawn_variance"] < 3 * shares["variance"]
    vote = found["simulated vote", None]
    assert (vote["voters"], vote["ballots"], vote["good"]) == (2_000, 2_000, True)
    assert [found["trips", pinned][which] for pinned in (False, True) for which in ("first", "later")] == [4, 2, 5, 3]
    assert (found["rerun", None]["scored"], found["rerun", None]["scored_again"]) == (1_200, 0)
    assert found["report", None]["cpu_seconds"] > 0
