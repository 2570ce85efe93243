"""A public prior: what it says of each candidate, what it weighs, and that results own up to it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import hushtune as ht
from hushtune.methods.base import Facts
from hushtune.methods.decode import smooth
from hushtune.methods.prior import _MOST_VOTERS, save
from hushtune.methods.propose_test.method import STEPS
from hushtune.methods.registry import method_from_json
from hushtune.review.pages.plots import _smoothed
from hushtune.review.pages.result import page as result_page
from hushtune.seals.ends import MOST_ADDED

SPACE = ht.Space(x=ht.Float(0.0, 1.0))
LINE = SPACE.grid(x=5)
MIXED = ht.Space(lr=ht.Float(1e-4, 1.0, log=True), kind=ht.Choice(["a", "b", "c"]))
TRIALS = [({"x": 0.0}, 0.9), ({"x": 0.25}, 0.1), ({"x": 0.5}, 0.5), ({"x": 0.75}, None), ({"x": 1.0}, math.inf)]
BACKWARDS = (4, 3, 2, 1, 0)


@ht.objective
def toward_the_end(config: ht.Config, data: ht.Rows) -> float:
    """Every client prefers larger x."""
    return float(1 - config["x"])


def clients(count: int = 10) -> list[ht.Client]:
    return [ht.Client((np.zeros((4, 1)), np.zeros(4)), toward_the_end, name=f"site-{at}") for at in range(count)]


def tuned(method: Any, **settings: Any) -> ht.Result:
    quiet: dict[str, Any] = {"observer": ht.Silent(), "jobs": 1, "simulation": ht.Simulation(0)}
    return ht.tune(clients(), LINE, method=method, **quiet | settings)


def shares(prior: ht.Prior, candidates: ht.Candidates = LINE) -> list[float]:
    return [round(float(share), 4) for share in prior.settled(candidates).shares]


# ---- what it says of each candidate ------------------------------------------------------------------


def test_of_scores_only_the_order_counts() -> None:
    assert shares(ht.Prior([3, -1, 2, 1e9, 0])) == [0.6667, 0, 0.3333, 1, 0]
    assert shares(ht.Prior(np.array([1.0, 1.0, 2.0, 0.0, 1.0]))) == [0.6667, 0.6667, 1, 0, 0.6667]
    assert shares(ht.Prior([7]), SPACE.candidates([{"x": 0.5}])) == [1]


def test_the_best_third_or_so_is_preferred_and_of_few_all_but_the_worst() -> None:
    for count, positive in ((2, 1), (3, 2), (4, 3), (5, 3), (10, 3), (20, 6), (100, 30)):
        found = shares(ht.Prior(list(range(count))), SPACE.grid(x=count))
        assert sum(share > 0 for share in found) == positive
        assert (found[0], found[-1]) == (0, 1)
        assert found == sorted(found)


def test_a_candidate_has_the_rank_of_its_own_trials_and_what_failed_is_worst() -> None:
    assert shares(ht.Prior(TRIALS)) == [0.3333, 1, 0.6667, 0, 0]
    assert shares(ht.Prior([*TRIALS, ({"x": 0.25}, 0.95)]))[1] < 1  # two trials: their mean rank


def test_a_candidate_without_a_trial_is_ranked_by_those_around_it() -> None:
    far = [({"x": at / 100}, abs(at / 100 - 0.6)) for at in range(0, 101, 7)]
    found = shares(ht.Prior(far), SPACE.grid(x=11))
    assert np.argmax(found) == 6
    assert found == sorted(found[:7]) + sorted(found[7:], reverse=True)


def test_trials_outside_the_space_do_not_count_and_that_is_said() -> None:
    others = [({"x": 7.0}, 0.0), ({"x": 0.2, "y": 1}, 0.0), ({}, 0.0)]
    assert shares(ht.Prior([*TRIALS, *others])) == shares(ht.Prior(TRIALS))
    assert ht.Prior(TRIALS, source="ours").settled(LINE).source == "ours"
    more = ht.Prior([*TRIALS, *others], source="ours").settled(LINE)
    assert more.source == "ours; 5 of 8 trials are in the space"
    assert more.settled(LINE) == more
    assert (
        ht.Prior([*TRIALS, *others])
        .settled(LINE)
        .words.startswith('30 voters, from "a source that was not named; 5 of 8')
    )
    with pytest.raises(ht.SettingError, match=r"knobs \['x'\], but none of 3 trials is; the first is x=7.0"):
        ht.Prior(others).settled(LINE)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_study_is_its_complete_trials_whatever_its_direction(direction: Any) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler(seed=0))
    sign = 1 if direction == "minimize" else -1
    done = [(config, loss) for config, loss in TRIALS if loss is not None and math.isfinite(loss)]
    for config, loss in done:
        study.add_trial(
            optuna.trial.create_trial(params=config, distributions={"x": SPACE.knobs["x"]}, value=sign * loss)
        )
    failed = optuna.trial.TrialState.FAIL
    study.add_trial(optuna.trial.create_trial(state=failed, params={"x": 1.0}, distributions={"x": SPACE.knobs["x"]}))
    assert ht.Prior(study, source="ours") == ht.Prior(done, source="ours")
    assert ht.Prior(study).source == f"Optuna study '{study.study_name}'"


def test_a_study_that_says_nothing_is_refused() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with pytest.raises(ht.SettingError, match="must have a complete trial"):
        ht.Prior(optuna.create_study())
    with pytest.raises(ht.SettingError, match="must have one direction, but has 2"):
        ht.Prior(optuna.create_study(directions=["minimize", "maximize"]))


def test_a_belief_is_a_bell_around_a_config() -> None:
    assert shares(ht.Prior.near({"x": 0.5})) == [0.1353, 0.6065, 1, 0.6065, 0.1353]
    assert shares(ht.Prior.near({"x": 0.0}, within=0.5))[:3] == [1, 0.8825, 0.6065]
    mixed = ht.Prior.near({"lr": 0.01, "kind": "b"}, within=1.0)
    found = dict(zip(map(str, MIXED.grid(lr=3)), shares(mixed, MIXED.grid(lr=3)), strict=True))
    assert found[str({"lr": 0.01, "kind": "b"})] == 1
    assert found[str({"lr": 0.01, "kind": "a"})] == found[str({"lr": 0.01, "kind": "c"})] == 0.6065
    assert found[str({"lr": 1.0, "kind": "b"})] == round(math.exp(-1 / 8), 4)
    with pytest.raises(ht.SettingError, match=r"knobs \['x'\], but got kind=b, lr=0.01"):
        mixed.settled(LINE)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "but got list with nothing in it"),
        ("prior.json", "but got str"),
        (3, "but got int"),
        ({"x": 1}, "but got dict"),
        ([1.0, math.nan], "scores must be finite numbers, but got 'nan'"),
        ([1.0, 10**400], "scores must be finite numbers"),
        ([1.0, True], "scores must be finite numbers, but got 'True'"),
        (["a", "b"], "scores must be finite numbers, but got 'a'"),
        ([1.0, ({"x": 0.0}, 1.0)], "scores must be finite numbers"),
        ([({"x": 0.0}, 1.0, 2)], "pairs of a config and its loss"),
        ([({"x": 0.0}, True)], "pairs of a config and its loss"),
        ([({"x": 0.0}, "low")], "pairs of a config and its loss"),
        ([("x", 0.0)], "pairs of a config and its loss"),
        ([({"x": math.inf}, 0.0)], "plain, finite values"),
        ([({"x": {1, 2}}, 0.0)], "plain, finite values"),
    ],
    ids=str,
)
def test_what_is_no_prior_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.Prior(given)


@pytest.mark.parametrize("given", [[7] * 5, [({"x": 0.3}, 0.1)], [({"x": 0.0}, 0.1), ({"x": 1.0}, 0.1)]], ids=str)
def test_one_that_prefers_nothing_is_refused(given: Any) -> None:
    with pytest.raises(ht.SettingError, match="must prefer some candidates to others, but this one ranks all 5 alike"):
        ht.Prior(given).settled(LINE)


def test_settings_are_refused_by_name() -> None:
    for voters in (0, 0.5, -1, 1e7, math.nan, True, "30"):
        with pytest.raises(ht.SettingError, match="a prior's voters"):
            ht.Prior([1, 2], voters=voters)  # type: ignore[arg-type]
    for source in ("two\nlines", "x" * 301, 3):
        with pytest.raises(ht.SettingError, match="source must be a text of one line"):
            ht.Prior([1, 2], source=source)  # type: ignore[arg-type]
    for within in (0, -1, math.inf):
        with pytest.raises(ht.SettingError, match="within"):
            ht.Prior.near({"x": 0.5}, within=within)
    with pytest.raises(ht.SettingError, match="one score for each of 5 candidates, but got 2"):
        ht.Prior([1, 2]).settled(LINE)
    with pytest.raises(ht.SettingError, match="not settled"):
        ht.Prior([1, 2]).scores(1)
    for method in (ht.Vote, ht.NoisyMax):
        with pytest.raises(ht.SettingError, match="prior must be a Prior"):
            method(prior=[1, 2])  # type: ignore[arg-type]


# ---- as values, and as a file ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prior",
    [ht.Prior([1, 3, 2, 0, 4], 7), ht.Prior(TRIALS, 1.5, "public rows"), ht.Prior.near({"x": 0.3}, 3, 0.1)],
    ids=["scores", "trials", "near"],
)
def test_it_is_the_same_after_a_journey_as_json(prior: ht.Prior) -> None:
    assert ht.Prior.from_json(json.loads(json.dumps(prior.to_json()))) == prior
    settled = prior.settled(LINE)
    assert settled.settled(LINE) == settled
    assert ht.Prior.from_json(json.loads(json.dumps(settled.to_json()))) == settled
    method = ht.Vote(k=2, prior=settled)
    assert method_from_json(json.loads(json.dumps(method.to_json()))) == method


@pytest.mark.parametrize(
    "raw",
    [
        3,
        {},
        {"shares": []},
        {"shares": [0, 2]},
        {"shares": [0, True]},
        {"shares": [0.5], "scores": [1]},
        {"trials": []},
        {"near": {}},
    ],
    ids=str,
)
def test_other_json_is_refused(raw: Any) -> None:
    with pytest.raises(ht.SettingError, match="prior"):
        ht.Prior.from_json(raw)


def test_a_file_keeps_trials_and_their_source(tmp_path: Path) -> None:
    path = tmp_path / "prior.json"
    save(path, [(config, loss) for config, loss in TRIALS], "public rows")
    assert ht.Prior.load(path, voters=4) == ht.Prior(TRIALS, 4, "public rows")


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"kind": "hushtune prior 1", "trials": [[{"x": 0}, 1]], "source": "", "voters": 3}',
        '{"kind": "hushtune prior 9"}',
        '{"kind": "hushtune prior 1"}',
        "\xff",
    ],
)
def test_a_file_that_is_no_prior_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "prior.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ht.SettingError, match="prior"):
        ht.Prior.load(path)


def test_only_files_that_can_be_one_are_read(tmp_path: Path) -> None:
    with pytest.raises(ht.SettingError, match="is not: No such file"):
        ht.Prior.load(tmp_path / "other.json")
    with pytest.raises(ht.SettingError, match="must be a file, but"):
        ht.Prior.load("/dev/zero")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(ht.SettingError, match="is not JSON"):
        ht.Prior.load(tmp_path / "deep.json")
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(2**26 + 1)
    with pytest.raises(ht.SettingError, match="it is too large"):
        ht.Prior.load(tmp_path / "large.json")
    (tmp_path / "kind.json").write_text('{"kind": "other", "trials": [[{"x": 0}, 1]], "source": ""}')
    with pytest.raises(ht.SettingError, match="its kind must be"):
        ht.Prior.load(tmp_path / "kind.json")


def test_neither_trials_nor_their_distances_are_without_end() -> None:
    many = [({"x": at / 100_001}, 0.1 * at) for at in range(100_001)]
    with pytest.raises(ht.SettingError, match="at most 100,000 trials, but got 100,001"):
        ht.Prior(many)
    with pytest.raises(ht.SettingError, match="20,000,000, but got 100,000 trials and 201 candidates"):
        ht.Prior(many[:-1]).settled(SPACE.grid(x=201))
    assert ht.Prior([*TRIALS, ({"x": 0.1}, 10**400)]).given.to_json()[-1] == [{"x": 0.1}, None]


# ---- what it weighs ----------------------------------------------------------------------------------


def test_its_voters_add_what_real_voters_could() -> None:
    prior = ht.Prior([0, 1, 2, 3, 4], voters=10).settled(LINE)
    assert prior.scores(1) == (0, 0, 3, 7, 10)
    assert prior.scores(15) == (0, 0, 50, 100, 150)
    assert max(replace(prior, voters=_MOST_VOTERS).scores(STEPS)) <= MOST_ADDED


def test_what_it_adds_is_in_what_clients_are_asked() -> None:
    privacy, prior = ht.Privacy(1.0, delta=0), ht.Prior([0, 1, 2, 3, 4], 9)
    facts = Facts(LINE, 10, privacy, ht.Quorum(), ht.Search())
    for method, added in (
        (ht.Vote(ballot="top"), (0, 0, 3, 6, 9)),
        (ht.Vote(ballot="approval"), (0, 0, 3, 6, 9)),
        (ht.Vote(), (0, 0, 9, 18, 27)),
        (ht.NoisyMax(), tuple(part * STEPS for part in (0, 0, 3, 6, 9))),
    ):
        with_prior, without = replace(method, prior=prior).settled(facts), method.settled(facts)
        assert with_prior.query(LINE, 0).added == added
        assert without.query(LINE, 0).added == ()
        assert with_prior.bounds(LINE) == without.bounds(LINE)  # so that it costs nothing
    opened = ht.Vote(opens="sum", prior=prior).settled(replace(facts, privacy=ht.Privacy(1.0)))
    assert opened.query(LINE, 0).added == ()


def test_soft_ballots_that_are_opened_take_none() -> None:
    with pytest.raises(ht.SettingError, match="prior is not for ballot='soft' with opens='sum'"):
        tuned(ht.Vote(ballot="soft", prior=ht.Prior(BACKWARDS)), seal=ht.Clear())


@pytest.mark.parametrize("voters", [4, 7, 13, 100])
def test_a_misleading_prior_weighs_what_its_voters_do_and_no_more(voters: float) -> None:
    """Ten voters vote for the last candidate, and the prior's for the first: the more numerous win."""
    prior, quiet = ht.Prior(BACKWARDS, voters), ht.Privacy(50.0)
    graded = ht.Vote(ballot="soft", opens="winner", prior=prior)
    for seal, methods in (
        (ht.Quorum(), (ht.Vote(k=1, prior=prior), ht.NoisyMax(prior=prior))),
        (ht.Curator(), (graded, ht.NoisyMax(prior=prior), ht.NoisyMax(mechanism="exponential", prior=prior))),
    ):
        for method in methods:
            found = tuned(method, privacy=quiet, seal=seal)
            assert found.index == (4 if voters < len(clients()) else 0), (seal.name, method.name)


@pytest.mark.parametrize("decode", ["smooth", "argmax"])
def test_where_nothing_is_noisy_a_sum_is_not_moved_by_smoothing_towards_it(decode: Any) -> None:
    found = tuned(ht.Vote(k=1, decode=decode, prior=ht.Prior(BACKWARDS, 1000)), seal=ht.Clear())
    assert found.index == (4 if decode == "smooth" else 0)


def test_where_noise_is_loud_a_good_prior_helps_and_a_bad_one_hurts() -> None:
    """Mean scores over 300 draws of the noise, all from one seed: the sum at epsilon .5 has noise of nine votes."""
    arms, found = {"none": None, "good": ht.Prior((0, 1, 2, 3, 4), 10), "bad": ht.Prior(BACKWARDS, 10)}, {}
    for name, prior in arms.items():
        simulation = ht.Simulation(0, clients()[0], draws=300)
        told = tuned(ht.Vote(k=1, prior=prior), privacy=ht.Privacy(0.5), simulation=simulation).simulation
        found[name] = told["figures"]["means"]
    for decode in ("smooth", "argmax"):
        assert found["bad"][decode] < found["none"][decode] - 0.1 < found["none"][decode] + 0.1 < found["good"][decode]


def test_a_sum_is_expected_of_as_many_voters_as_there_are() -> None:
    facts = Facts(LINE, 10, ht.Privacy(1.0), ht.Masked(), ht.Search())
    for given, counted in ((3.0, 3.0), (10.0, 10.0), (1e5, 10.0)):
        settled = ht.Vote(prior=ht.Prior(BACKWARDS, given)).settled(facts)
        assert settled.prior is not None
        assert settled.prior.voters == counted
        assert settled.settled(facts) == settled


def test_draws_of_a_simulation_hear_the_prior() -> None:
    simulation, prior = ht.Simulation(0, clients()[0], draws=20), ht.Prior(BACKWARDS, 1000)
    method = ht.Vote(k=1, opens="winner", prior=prior)
    told = tuned(method, privacy=ht.Privacy(50.0), seal=ht.Curator(), simulation=simulation).simulation
    assert told["figures"]["means"] == {"winner": 0.0}
    assert told["figures"]["the public prior alone"] == 0.0


def test_only_differences_of_what_is_expected_count() -> None:
    counts, expected = np.array([3, 1, 4, 1, 5]), np.array([0.0, 1.0, 2.0, 3.0, 9.0])
    one, other = (smooth(counts, None, 4.0, LINE, expected + far).mean for far in (0, 100))
    assert one == pytest.approx(other)


# ---- results own up to it ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "seal", "privacy"),
    [
        (ht.Vote(), ht.Quorum(), ht.Privacy(1.0, delta=0)),
        (ht.Vote(), ht.Quorum(), None),
        (ht.NoisyMax(), ht.Quorum(), ht.Privacy(1.0)),
        (ht.Vote(opens="winner", ballot="soft"), ht.Curator(), ht.Privacy(1.0)),
        (ht.Vote(opens="sum"), ht.Quorum(), ht.Privacy(1.0)),
        (ht.Vote(), ht.Masked(), ht.Privacy(1.0)),
        (ht.Vote(decode="argmax"), ht.Clear(), None),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_a_run_with_a_prior_says_so_and_can_be_checked(tmp_path: Path, method: Any, seal: Any, privacy: Any) -> None:
    prior = ht.Prior(BACKWARDS, 3, "public rows")
    simulation = ht.Simulation(0, clients()[0], draws=2)
    found = tuned(replace(method, prior=prior), seal=seal, privacy=privacy, simulation=simulation, folder=tmp_path)
    plain = tuned(method, seal=seal, privacy=privacy)
    assert found.spent == plain.spent
    assert 'A prior counts as 3 voters, from "public rows". It must be PUBLIC' in found.statement
    chosen = "the same config" if found.index == 0 else "x = 0"
    assert f"By itself, the public prior would have chosen {chosen}." in found.statement
    assert "prior" not in plain.statement
    assert found.simulation["figures"]["the public prior alone"] == 0.0
    page = ht.report(tmp_path).read_text()
    assert "the public prior alone" in page
    assert ("of all ballots and of the public prior" in page) == (found.method.consults and method.name == "vote")
    assert ht.verify(tmp_path).holds
    told = json.loads((tmp_path / "result.json").read_text())
    told["method"]["prior"]["source"] = "somebody's patients"
    (tmp_path / "result.json").write_text(json.dumps(told))
    assert not ht.verify(tmp_path).holds


def test_a_statement_says_if_a_prior_outweighs_the_clients() -> None:
    seal, privacy = ht.Quorum(), ht.Privacy(1.0, delta=0)
    for voters, said in ((len(clients()), False), (len(clients()) + 1, True)):
        found = tuned(ht.Vote(prior=ht.Prior(BACKWARDS, voters)), seal=seal, privacy=privacy)
        assert (f" It outweighs the {len(clients())} real voters." in found.statement) == said


def test_one_that_decided_a_sum_cannot_be_exchanged_afterwards(tmp_path: Path) -> None:
    method = ht.Vote(k=1, decode="argmax", prior=ht.Prior(BACKWARDS, 10))
    tuned(method, privacy=ht.Privacy(0.5), folder=tmp_path)
    told = json.loads((tmp_path / "result.json").read_text())
    assert told["method"]["prior"]["shares"] == pytest.approx([1, 2 / 3, 1 / 3, 0, 0])
    told["method"]["prior"]["shares"].reverse()
    (tmp_path / "result.json").write_text(json.dumps(told))
    broken = [check.claim for check in ht.verify(tmp_path).checks if not check.holds]
    assert "the method decides the same from the opened values" in broken


def test_a_source_that_was_not_named_is_said() -> None:
    assert "from a source that was not named" in tuned(ht.Vote(prior=ht.Prior(BACKWARDS)), seal=ht.Clear()).statement


def test_a_plan_that_leaves_the_prior_out_says_so() -> None:
    prior = ht.Prior.near({"x": 0.5})
    settings: Any = {"privacy": ht.Privacy(1.0), "observer": ht.Silent()}
    planned = [ht.plan(100, LINE, method=ht.NoisyMax(prior=one), **settings) for one in (prior, None)]
    assert ["; without its prior" in "\n".join(one.lines()) for one in planned] == [True, False]


def test_what_was_added_is_listed_whatever_a_method_says_of_itself(tmp_path: Path) -> None:
    class Hidden(ht.Vote):
        """Says it is a vote without a prior, and has scores added."""

        def query(self, candidates: ht.Candidates, seed: int) -> Any:
            return replace(super().query(candidates, seed), added=(2**40, 0, 0, 0, 0))

    found = tuned(Hidden(k=1), seal=ht.Quorum(), privacy=ht.Privacy(5.0), folder=tmp_path)
    assert found.index == 0
    assert f"after PUBLIC scores from 0 to {2**40} were added to the candidates' sums" in found.statement
    broken = [check.claim for check in ht.verify(tmp_path).checks if not check.holds]
    assert "the disclosures are those of the opened values" in broken


def test_no_candidate_adds_a_line_to_a_statement() -> None:
    forged = "rbf.\nGuarantee: (0.001, 0)-differential privacy for each client\x1b[8m"
    space = ht.Space(kernel=ht.Choice(["linear", forged]))

    @ht.objective
    def flat(config: ht.Config, data: ht.Rows) -> float:
        return 0.0

    held = [ht.Client((np.zeros((2, 1)), np.zeros(2)), flat) for _ in range(5)]
    method = ht.Vote(k=1, opens="sum", prior=ht.Prior([0, 1], 1, "x"))
    found = ht.tune(
        held, space.grid(), method=method, seal=ht.Clear(), observer=ht.Silent(), simulation=ht.Simulation(0)
    )
    assert "\x1b" not in found.statement
    assert sum(line.startswith("Guarantee:") for line in found.statement.splitlines()) == 1


def test_a_report_smooths_towards_the_prior_as_the_run_did() -> None:
    found = tuned(ht.Vote(k=1, prior=ht.Prior(BACKWARDS, 10)), privacy=ht.Privacy(0.5))
    values = found.opened[0].blocks["votes"]
    expected = smooth(
        np.array(values), 10.0, found.opened[0].noise_variance, LINE, np.array([10.0, 20 / 3, 10 / 3, 0.0, 0.0])
    )
    assert _smoothed(found, values)[0] == pytest.approx(expected.mean)
    assert "Only opened values and the public prior are used." in result_page(found, [], "")
    without = tuned(ht.Vote(k=1), privacy=ht.Privacy(0.5))
    assert "Only opened values are used." in result_page(without, [], "")
