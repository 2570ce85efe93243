"""Unit "record": one record moves at most one ballot, through the whole way out of a client."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.release import contribution
from hushtune.client.request import parts_of
from hushtune.client.rows import Parts
from hushtune.client.trials import TrialStore
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.secret import Secret
from hushtune.federation.local import LocalFederation
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.noise.base import Noise

CANDIDATES = ht.Space(logisticregression__C=ht.Float(1e-3, 1e3, log=True)).grid(logisticregression__C=8)
QUERY = TopVotes(2, CANDIDATES, 0)
SCALED = ht.SklearnObjective(make_pipeline(StandardScaler(), LogisticRegression()), validation=0.4)


def party(tmp_path: Path, data: Any, objective: Any = SCALED) -> Party:
    return Party(
        "a",
        ht.Client(data, objective),
        TrialStore(tmp_path / "t.db"),
        tmp_path,
        SimulatedRandomness(1, "ties"),
        secret=Secret.simulated(0, "a"),
    )


def patients(count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(count, 3))
    return x, (x[:, 0] + rng.normal(size=count) > 0).astype(int)


def losses(inside: Party, parts: Parts) -> list[list[float]]:
    return [part.losses(CANDIDATES.configs, 0).tolist() for part in inside.parts(parts)]


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_one_extreme_record_changes_what_one_part_sees(tmp_path: Path, neighbours: Any) -> None:
    """Scaling, splitting and scoring happen inside a part: an outlier in one leaves all losses of the others alone."""
    x, y = patients()
    parts = Parts(10, neighbours)
    other_x, other_y = x.copy(), y.copy()
    if neighbours == "replace-one":
        other_x[17], other_y[17] = 1e6, 1 - y[17]
    else:
        other_x, other_y = np.vstack([x, np.full((1, 3), 1e6)]), np.append(y, 1)
    before, after = losses(party(tmp_path, (x, y)), parts), losses(party(tmp_path, (other_x, other_y)), parts)
    assert sum(repr(a) != repr(b) for a, b in zip(before, after, strict=True)) == 1  # NaN differs from itself


def test_the_contribution_is_the_sum_of_one_ballot_per_part(tmp_path: Path) -> None:
    vector = contribution(QUERY, party(tmp_path, patients()), Parts(10), private=True)
    assert vector.sum() == 2 * 10
    assert vector.min() >= 0
    assert vector.max() <= 10


def test_the_event_is_that_of_one_ballot_under_both_relations() -> None:
    """A part always votes: adding a record changes one ballot into another, as replacing one does."""
    for neighbours in ("replace-one", "add-remove"):
        privacy = ht.Privacy(1.0, unit="record", neighbours=neighbours)  # type: ignore[arg-type]
        assert QUERY.bound.event(Noise(5.0), privacy.change).coordinates == 4  # type: ignore[attr-defined]
    client = ht.Privacy(1.0, neighbours="zero-out")
    assert QUERY.bound.event(Noise(5.0), client.change).coordinates == 2  # type: ignore[attr-defined]


def test_parts_follow_the_relation() -> None:
    assert parts_of(5, ht.Privacy(1.0, unit="record", neighbours="add-remove")) == Parts(5, "add-remove")
    assert parts_of(5, ht.Privacy(1.0, unit="record")) == Parts(5)
    assert parts_of(5, None) == Parts(5)


def test_more_parts_than_rows_and_parts_of_one_class_still_vote(tmp_path: Path) -> None:
    """Parts without rows, or that cannot be scored, cast random ballots: the sum has the same size, always."""
    x, _ = patients(6)
    inside = party(tmp_path, (x, np.zeros(6, dtype=int)))
    vector = contribution(QUERY, inside, Parts(40), private=True)
    assert vector.sum() == 2 * 40
    assert sum(part.silent for part in inside.parts(Parts(40))) >= 34


def test_without_epsilon_a_failing_part_is_not_hidden_but_an_empty_one_votes(tmp_path: Path) -> None:
    @ht.objective
    def fails(config: ht.Config, data: Any) -> float:
        raise ValueError("no")

    with pytest.raises(ht.RefusedError, match="objective failed"):
        contribution(QUERY, party(tmp_path, patients(), fails), Parts(3), private=False)

    @ht.objective
    def first(config: ht.Config, data: Any) -> float:
        return float(config["logisticregression__C"])

    vector = contribution(QUERY, party(tmp_path, patients(3), first), Parts(8), private=False)
    assert vector.sum() == 16


class Remembers:
    """An objective that keeps what it saw, and whose losses tell."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def fingerprint(self) -> str:
        return "remembers"

    def losses(self, configs: Sequence[ht.Config], data: Any, seed: int) -> Any:
        self.seen.append(len(data))
        return np.full(len(configs), float(len(self.seen)))


def test_an_objective_does_not_carry_anything_from_part_to_part(tmp_path: Path) -> None:
    inside = party(tmp_path, patients(), Remembers())
    assert {tuple(row) for row in losses(inside, Parts(10))} == {(1.0,) * 8}


class Told(Remembers):
    """An objective whose losses say how many parts it was told of, and whether a part could tell another."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = 1

    def as_part(self, parts: int) -> Told:
        self.parts = parts  # not as it should be: on itself
        return self

    def losses(self, configs: Sequence[ht.Config], data: Any, seed: int) -> Any:
        return super().losses(configs, data, seed) + self.parts


def test_a_part_is_told_how_many_there_are_and_nothing_else(tmp_path: Path) -> None:
    objective = Told()
    inside = party(tmp_path, patients(), objective)
    assert {tuple(row) for row in losses(inside, Parts(10))} == {(11.0,) * 8}
    assert {tuple(row) for row in losses(inside, Parts(3))} == {(4.0,) * 8}
    assert losses(inside, Parts(1)) == [[2.0] * 8]
    assert objective.parts == 1


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), None])
def test_an_objective_that_cannot_be_told_casts_ballots_like_any_other(
    tmp_path: Path, error: BaseException | None
) -> None:
    """Nobody learns of it with an epsilon, and without one no more than of any other failure."""

    class Fails(Remembers):
        def as_part(self, parts: int) -> Any:
            if error is not None:
                raise error

    inside = party(tmp_path, patients(), Fails())
    vector = contribution(QUERY, inside, Parts(10), private=True)
    assert vector.sum() == 2 * 10
    with pytest.raises(ht.RefusedError, match="objective failed; see the client's own log"):
        contribution(QUERY, inside, Parts(10), private=False)


def test_an_objective_that_cannot_be_told_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    class Fails(Remembers):
        def as_part(self, parts: int) -> Any:
            raise ht.SettingError("parts must be few")

    clients = [ht.Client(patients(), Fails(), name=name) for name in "abc"]
    with pytest.raises(ht.SettingError, match="parts must be few"):
        LocalFederation(clients, tmp_path).check(CANDIDATES.space, Parts(10))


@pytest.mark.parametrize("error", [ValueError("own value 3 too large"), SystemExit(3)])
def test_one_that_fails_when_it_is_told_is_no_refusal_for_all_to_hear(tmp_path: Path, error: BaseException) -> None:
    class Fails(Remembers):
        def as_part(self, parts: int) -> Any:
            raise error

    clients = [ht.Client(patients(), Fails(), name=name) for name in "abc"]
    LocalFederation(clients, tmp_path).check(CANDIDATES.space, Parts(10))


def test_one_record_changes_one_part_of_an_objective_that_takes_more_steps(tmp_path: Path) -> None:
    x, y = patients()
    objective = ht.SklearnObjective(SGDClassifier(max_iter=5), validation=0.4, full_steps=True)
    configs = [{"alpha": alpha} for alpha in (1e-4, 1e-2, 1.0)]

    def scored(y: np.ndarray) -> list[str]:
        parts = party(tmp_path, (x, y), objective).parts(Parts(10))
        return [repr(part.losses(configs, 0).tolist()) for part in parts]

    other = y.copy()
    other[17] = 7  # a label of its own
    assert sum(a != b for a, b in zip(scored(y), scored(other), strict=True)) == 1


def hospitals(count: int = 4) -> list[ht.Client]:
    rng = np.random.default_rng(0)
    clients = []
    for number in range(count):
        x = rng.normal(size=(200, 3)) + number
        clients.append(ht.Client((x, (x[:, 0] - number + rng.normal(size=200) > 0).astype(int)), SCALED))
    return clients


@pytest.mark.long
def test_few_large_clients_end_to_end(tmp_path: Path) -> None:
    privacy = ht.Privacy(2.0, unit="record")
    settings = {"method": ht.Vote(k=2, voters=40), "privacy": privacy, "observer": ht.Silent(), "jobs": 1}
    result = ht.tune(hospitals(), CANDIDATES, home=tmp_path / "home", folder=tmp_path / "run", **settings)  # type: ignore[arg-type]
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    for part in (
        "differential privacy for each record",
        "4 answered, each with 40 voters",
        "A record is one row, or all rows under one person's name",
        "NOT covered: a person with rows at two clients",
    ):
        assert part in result.statement, part
    raw = json.loads((tmp_path / "run" / "result.json").read_text())
    raw["method"]["voters"], raw["privacy"]["unit"] = 1, "client"  # a stronger claim than what was opened allows
    (tmp_path / "run" / "result.json").write_text(json.dumps(raw))
    failed = [check.claim for check in ht.verify(tmp_path / "run") if not check.holds]
    assert "the opened values add up to what so many answers and voters contribute" in failed
    spread = abs(sum(result.opened[0].blocks["votes"]) - 2 * 40 * 4)
    assert spread < 6 * np.sqrt(8 * result.opened[0].noise_variance)
    same = ht.tune(
        hospitals(),
        CANDIDATES,
        home=tmp_path / "b",
        **{**settings, "method": ht.Vote(2), "privacy": ht.Privacy(2.0)},  # type: ignore[arg-type]
    )
    assert same.noise == result.noise  # calibrated to clients, not to voters


def test_a_ledger_of_clients_takes_no_records(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ht.tune(
        hospitals(), CANDIDATES, method=ht.Vote(2), privacy=ht.Privacy(1.0), home=home, observer=ht.Silent(), jobs=1
    )
    with pytest.raises(ht.LedgerError, match="counts per client, but the run counts per record"):
        ht.tune(
            hospitals(),
            CANDIDATES,
            method=ht.Vote(2, voters=10),
            privacy=ht.Privacy(1.0, unit="record"),
            home=home,
            observer=ht.Silent(),
            jobs=1,
        )


def test_a_study_of_all_rows_is_not_split(tmp_path: Path) -> None:
    import optuna

    study = optuna.create_study()
    clients = [dataclasses.replace(client, trials=study) for client in hospitals()]
    with pytest.raises(ht.SettingError, match=r"brings an Optuna study, .* use voters=1"):
        ht.tune(clients, CANDIDATES, method=ht.Vote(2, voters=4), privacy=ht.Privacy(1.0, unit="record"), home=tmp_path)


def test_records_are_not_zeroed_out() -> None:
    with pytest.raises(ht.SettingError, match="for records use 'add-remove' or 'replace-one'"):
        ht.Privacy(1.0, unit="record", neighbours="zero-out")


def test_what_cannot_be_split_casts_random_ballots_and_says_so_to_nobody(tmp_path: Path) -> None:
    class Breaks(ht.Rows):
        def take(self, indices: Any) -> Any:
            raise ValueError("row 17 is odd")

    inside = party(tmp_path, Breaks(*patients()))
    assert contribution(QUERY, inside, Parts(10), private=True).sum() == 20
    assert "row 17 is odd" in (tmp_path / "client.log").read_text()
    with pytest.raises(ht.RefusedError, match="objective failed"):
        contribution(QUERY, party(tmp_path, Breaks(*patients())), Parts(10), private=False)


class Tensor:
    """Holds its values where fingerprints of fields do not look, as a tensor does."""

    def __init__(self, values: Any) -> None:
        _HIDDEN[id(self)] = np.asarray(values)
        self.shape = _HIDDEN[id(self)].shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return _HIDDEN[id(self)]

    def __getitem__(self, at: Any) -> Tensor:
        return Tensor(_HIDDEN[id(self)][at])


_HIDDEN: dict[int, np.ndarray] = {}


def test_units_never_see_each_others_trials(tmp_path: Path) -> None:
    """Neither through data that looks alike to a fingerprint, nor through data that is alike."""

    @ht.objective
    def mean(config: ht.Config, data: Any) -> float:
        return abs(float(config["logisticregression__C"]) - float(np.mean(np.asarray(data.y))))

    parts = party(tmp_path, ht.Rows(Tensor(np.zeros((10, 1))), Tensor(np.arange(10.0))), mean).parts(Parts(5))
    assert len({tuple(part.losses(CANDIDATES.configs, 0)) for part in parts}) == 5
    assert len({part.data_key for part in party(tmp_path, (np.zeros((10, 1)), np.zeros(10))).parts(Parts(5))}) == 5


def test_nothing_enclosed_or_drawn_passes_from_part_to_part(tmp_path: Path) -> None:
    seen: dict[str, float] = {}

    @ht.objective
    def remembers(config: ht.Config, data: Any) -> float:
        draws = np.random.rand(int(abs(data.y).sum()) + 1)  # as many as the data says
        return seen.setdefault("first", float(np.mean(data.X))) + 0 * draws[0]

    @ht.objective
    def draws_one(config: ht.Config, data: Any) -> float:
        np.random.rand(int(abs(np.asarray(data.y)).sum()))
        return float(np.random.rand())

    x, y = patients()
    values = losses(party(tmp_path, (x, y), remembers), Parts(10))
    assert len({row[0] for row in values}) == 10
    other = y.copy()
    other[17] += 5
    before, after = (losses(party(tmp_path / str(n), (x, v), draws_one), Parts(10)) for n, v in enumerate((y, other)))
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_a_client_with_trials_of_its_own_refuses_to_be_split(tmp_path: Path) -> None:
    """Whatever the coordinator checks: the client checks it too."""
    import optuna

    from hushtune.client.release import respond
    from hushtune.client.request import Request
    from hushtune.core.roster import Roster
    from hushtune.privacy.calibration import events_of
    from hushtune.privacy.ledger import Ledger

    inside = party(tmp_path, patients())
    inside.client.trials = optuna.create_study()
    inside.ledger = Ledger(tmp_path / "ledger.db")
    roster, noise, privacy = Roster(("a", "b")), Noise(50.0), ht.Privacy(5.0, unit="record")
    events = events_of((QUERY.bound,), privacy, noise)
    request = Request("0" * 32, 0, roster.digest(), QUERY, None, ht.Clear(), noise, privacy, 100, events)
    assert b"does not split them" in respond(request.to_bytes(), inside, roster)


class Opaque:
    """Says nothing of its content."""


def test_a_record_that_cannot_be_dealt_with_costs_one_ballot(tmp_path: Path) -> None:
    """With an epsilon nobody sees it; the client's own log says what to do."""
    data: list[Any] = [float(value) for value in range(40)]

    @ht.objective
    def mean(config: ht.Config, rows: Any) -> float:
        return abs(float(config["logisticregression__C"]) - float(np.mean(rows)))

    parts = Parts(10, "add-remove")
    before = party(tmp_path / "before", data, mean)
    after = party(tmp_path / "after", [*data, Opaque()], mean)
    assert contribution(QUERY, after, parts, private=True).sum() == 20
    failed = [number for number, part in enumerate(after.parts(parts)) if part.failure]
    assert len(failed) == 1
    pairs = list(zip(before.parts(parts), after.parts(parts), strict=True))
    assert [n for n, (one, other) in enumerate(pairs) if one.data_key != other.data_key] == failed
    assert "make objects of them inside the objective" in (tmp_path / "after" / "client.log").read_text()
    with pytest.raises(ht.RefusedError, match="objective failed"):
        contribution(QUERY, party(tmp_path / "plain", [*data, Opaque()], mean), parts, private=False)


def homes(federation: LocalFederation, parts: Parts) -> dict[str, list[list[float]]]:
    return {name: [part.data for part in inside.parts(parts)] for name, inside in federation.parties.items()}


def test_a_clients_parts_are_its_secret_and_the_same_in_every_run(tmp_path: Path) -> None:
    data = [float(value) for value in range(40)]
    clients = [ht.Client(data, SCALED, name=name) for name in ("a", "b")]
    parts = Parts(7, "add-remove")

    def found(home: str, seed: int | None = None) -> dict[str, list[list[float]]]:
        return homes(LocalFederation(clients, tmp_path / home, seed=seed, jobs=1), parts)

    once = found("real")
    assert found("real") == once
    assert once["a"] != once["b"]
    assert found("elsewhere")["a"] != once["a"]
    assert (tmp_path / "real" / "clients" / "a" / "secret.key").exists()
    simulated = found("simulated", 3)
    assert simulated == found("again", 3)
    assert simulated["a"] != simulated["b"]
    assert simulated != found("other", 4)
    assert not list(tmp_path.glob("simulated/**/secret.key"))
