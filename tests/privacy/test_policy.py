from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import hushtune as ht
from hushtune.privacy.policy import Proposal

PRIVACY = ht.Privacy(1.0)
OPEN = Proposal("top-votes", "clear", False, 0.1, False, 10, PRIVACY, pinned=False, apart=False)


def test_in_one_process_the_default_accepts() -> None:
    ht.Policy().check(replace(OPEN, honest=1))
    ht.Policy().check(replace(OPEN, honest=1, privacy=None))


@pytest.mark.parametrize("place", [{"pinned": True}, {"apart": True}, {"pinned": True, "apart": True}])
def test_elsewhere_the_default_accepts_only_seals_under_which_a_lying_server_sees_no_single_contribution(
    place: dict[str, bool],
) -> None:
    for seal in ("clear", "curator", "threshold", "another"):
        with pytest.raises(ht.RefusedError, match=rf"under seal '{seal}' .*: seals = \[\"{seal}\"\]"):
            ht.Policy().check(replace(OPEN, seal=seal, **place))
        ht.Policy(seals=(seal,)).check(replace(OPEN, seal=seal, **place))
    ht.Policy().check(replace(OPEN, seal="masked", hides=True, **place))


def test_on_a_machine_of_its_own_exact_values_are_opened_only_if_the_owner_says_so() -> None:
    bare = replace(OPEN, privacy=None, hides=True, apart=True)
    for policy in (ht.Policy(), ht.Policy(exact=False)):
        with pytest.raises(ht.RefusedError, match="opens exact values; .*: exact = true"):
            policy.check(bare)
    ht.Policy(exact=True).check(bare)
    with pytest.raises(ht.RefusedError, match="exact = true"):
        ht.Policy(exact=False).check(replace(bare, apart=False))


def test_an_owners_limit_is_for_one_unit_and_relation() -> None:
    assert ht.Policy().granted is None
    assert ht.Policy(epsilon=2.0).granted == ht.Privacy(2.0, 1e-3)
    assert ht.Policy(epsilon=2.0, delta=1e-6, units=("record", "client")).granted == ht.Privacy(2.0, 1e-6, "record")
    adding = ht.Policy(epsilon=2.0, neighbours=("add-remove",)).granted
    assert adding == ht.Privacy(2.0, 1e-3, "record", "add-remove")
    with pytest.raises(ht.SettingError, match="'zero-out' is for unit='client'"):
        ht.Policy(epsilon=2.0, units=("record",), neighbours=("zero-out",))


def test_exact_values_and_an_epsilon_do_not_go_together() -> None:
    with pytest.raises(ht.SettingError, match="no epsilon can be kept to"):
        ht.Policy(epsilon=1.0, exact=True)


def test_work_is_bounded() -> None:
    with pytest.raises(ht.RefusedError, match="at most 5 configs are scored for a run, but got 6"):
        ht.Policy(work=5).check_work(6)
    with pytest.raises(ht.RefusedError, match="at most 2 runs may be begun and never charged"):
        ht.Policy(unpaid=2).check_unpaid(2)
    ht.Policy(unpaid=2).check_unpaid(1)
    ht.Policy(unpaid=None, work=None).check_unpaid(10**6)
    for wrong in ({"seconds": 0}, {"trial_seconds": -1.0}, {"unpaid": 0}, {"work": 0}, {"exact": "yes"}):
        with pytest.raises(ht.SettingError, match=next(iter(wrong))):
            ht.Policy(**wrong)  # type: ignore[arg-type]


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
        (ht.Policy(units=("record",), insecure=True), r"unit must be one of \['record'\], but got 'client'"),
        (ht.Policy(corrupt=0.2, insecure=True), "`corrupt >= 0.2` must hold"),
    ],
)
def test_each_rule_refuses(policy: ht.Policy, message: str) -> None:
    with pytest.raises(ht.RefusedError, match=message):
        policy.check(replace(OPEN, insecure=True))


def test_a_limit_on_epsilon_refuses_runs_without_one() -> None:
    with pytest.raises(ht.RefusedError, match="no epsilon at all"):
        ht.Policy(epsilon=5.0).check(replace(OPEN, privacy=None))


def test_bad_policies() -> None:
    with pytest.raises(ht.SettingError, match="epsilon=0"):
        ht.Policy(epsilon=0)
    for delta in (1, -1e-5):
        with pytest.raises(ht.SettingError, match=f"`0 <= delta < 1` must hold, but got delta={delta}"):
            ht.Policy(delta=delta)
    with pytest.raises(ht.SettingError, match="`delta = 0` or `1e-12 <= delta <= 0.1` must hold"):
        ht.Policy(epsilon=1.0, delta=1e-13)
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
        ('seals = "masked"', r"policy.toml: seals must be a list of names, as in seals = .* but got 'masked'"),
        ("units = []", r"units must be a list of names"),
        ('units = ["patient"]', r"units must be of \['client', 'record'\], but got \['patient'\]"),
        ("epsilon =", "policy.toml must be TOML"),
    ):
        path.write_text(content)
        with pytest.raises(ht.SettingError, match=message):
            ht.Policy.load(path)
    with pytest.raises(ht.SettingError, match="cannot be read: No such file"):
        ht.Policy.load(tmp_path / "none.toml")


def test_a_space_in_a_file_is_written_as_in_a_study(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(
        'epsilon = 1.0\n[space]\nC = { type = "float", low = 0.01, high = 100, log = true }\n'
        'kernel = { type = "choice", choices = ["rbf", "linear"] }\n'
    )
    own = ht.Space(C=ht.Float(0.01, 100, log=True), kernel=ht.Choice(["rbf", "linear"]))
    assert ht.Policy.load(path) == ht.Policy(epsilon=1.0, space=own)
    for content, message in (
        ('[space]\nC = { type = "real" }', "policy.toml: 'C' needs type = one of"),
        ("[space]", "policy.toml: a space needs at least one knob"),
        ("space = 3", "policy.toml: space must be a Space, but got 3"),
    ):
        path.write_text(content)
        with pytest.raises(ht.SettingError, match=message):
            ht.Policy.load(path)


def test_an_owner_may_accept_pure_runs_only() -> None:
    policy, pure = ht.Policy(epsilon=1.0, delta=0), ht.Privacy(1.0, delta=0)
    assert policy.granted == pure
    policy.check(replace(OPEN, privacy=pure))
    ht.Policy().check(replace(OPEN, privacy=pure))
    for refused in (ht.Privacy(1.0, 1e-12), ht.Privacy(1.0)):
        with pytest.raises(ht.RefusedError, match="policy: `delta <= 0` must hold, but got delta=1e-"):
            policy.check(replace(OPEN, privacy=refused))
    with pytest.raises(ht.RefusedError, match="no epsilon at all"):
        policy.check(replace(OPEN, privacy=None))


def test_only_nodes_that_the_owner_names_may_hold_shares() -> None:
    asked = replace(OPEN, seal="quorum", hides=True, nodes=("a", "b", "c"))
    ht.Policy().check(asked)
    ht.Policy(nodes=("a", "b", "c", "d")).check(asked)
    with pytest.raises(
        ht.RefusedError, match=r"nodes must be among \['a', 'b'\], but the run's nodes are \['a', 'b', 'c'\]"
    ):
        ht.Policy(nodes=("a", "b")).check(asked)
    with pytest.raises(ht.SettingError, match="nodes must be a list of names"):
        ht.Policy(nodes="a")  # type: ignore[arg-type]
