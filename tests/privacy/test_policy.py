from __future__ import annotations

from pathlib import Path

import pytest

import hushtune as ht

PRIVACY = ht.Privacy(1.0)


def test_the_default_accepts() -> None:
    ht.Policy().check("top-votes", "clear", 0.1, False, 1, None)
    ht.Policy().check("top-votes", "clear", 0.1, False, 1, PRIVACY)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (ht.Policy(opt_out=True, insecure=True), "opted out"),
        (ht.Policy(), "insecure=True"),
        (ht.Policy(seals=("masked",), insecure=True), "seal must be one of"),
        (ht.Policy(queries=("other",), insecure=True), "query must be one of"),
        (ht.Policy(smallest_cohort=11, insecure=True), "at least 11 honest clients must be in every sum, but got 10"),
        (ht.Policy(epsilon=0.5, insecure=True), "got epsilon=1"),
        (ht.Policy(delta=1e-6, insecure=True), "`delta <= 1e-06` must hold"),
        (ht.Policy(neighbours=("zero-out",), insecure=True), "neighbours must be one of"),
        (ht.Policy(corrupt=0.2, insecure=True), "`corrupt >= 0.2` must hold"),
    ],
)
def test_each_rule_refuses(policy: ht.Policy, message: str) -> None:
    with pytest.raises(ht.RefusedError, match=message):
        policy.check("top-votes", "clear", 0.1, True, 10, PRIVACY)


def test_a_limit_on_epsilon_refuses_runs_without_one() -> None:
    with pytest.raises(ht.RefusedError, match="no epsilon at all"):
        ht.Policy(epsilon=5.0).check("top-votes", "clear", 0.1, False, 10, None)


def test_bad_policies() -> None:
    with pytest.raises(ht.SettingError, match="epsilon=0"):
        ht.Policy(epsilon=0)
    with pytest.raises(ht.SettingError, match="delta=1"):
        ht.Policy(delta=1)
    with pytest.raises(ht.SettingError, match="corrupt=1"):
        ht.Policy(corrupt=1)
    with pytest.raises(ht.SettingError, match="smallest_cohort"):
        ht.Policy(smallest_cohort=0)


def test_a_policy_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text('epsilon = 1.0\nseals = ["masked"]\nsmallest_cohort = 5\n')
    assert ht.Policy.load(path) == ht.Policy(epsilon=1.0, seals=("masked",), smallest_cohort=5)
    for content, message in (
        ("epsilom = 1.0", r"may set \['epsilon', .*\], but got \['epsilom'\]"),
        ("epsilon = -1", r"policy.toml: `0 < epsilon < inf` must hold, but got epsilon=-1"),
        ('seals = "masked"', r"policy.toml: seals must be several names, .* but got 'masked'"),
        ("epsilon =", "policy.toml must be TOML"),
    ):
        path.write_text(content)
        with pytest.raises(ht.SettingError, match=message):
            ht.Policy.load(path)
    with pytest.raises(ht.SettingError, match="cannot be read: No such file"):
        ht.Policy.load(tmp_path / "none.toml")
