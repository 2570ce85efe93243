"""PrivTuna end to end without encryption: pairs in the clear, exact sums, noisy sums; and what each of them shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.conftest import tune as _tune

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.trials import TrialStore
from hushtune.core.errors import AbortedError, NoLossError, SettingError
from hushtune.core.randomness import SystemRandomness
from hushtune.core.secret import Secret
from hushtune.methods.combine.method import SUMS
from hushtune.methods.combine.tallies import CellCounts, ConfigSums
from hushtune.methods.unopened import Unopened
from hushtune.privacy.bounds import Tally
from hushtune.privacy.events.sums import SkellamVector
from hushtune.privacy.noise.base import Noise
from hushtune.run.replay import Replay

SPACE = ht.Space(x=ht.Float(1e-3, 1.0, log=True), kind=ht.Choice(["a", "b"]))
GRID = SPACE.grid(x=13)
STRATEGIES = ("mean", "median", "trimmed", "best-mean", "best-median", "dbscan")


class Bowl:
    """Best where log10 x is the client's first label, kind 'b'."""

    def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
        far = [0.1 + 0.25 * abs(np.log10(c["x"]) - data.y[0]) + 0.3 * (c["kind"] == "a") for c in configs]
        return np.minimum(1.0, far)


class Flat(Bowl):
    """One config is good, the closest to 10 to the power of the client's first label, with kind 'b'."""

    def __init__(self, best: float) -> None:
        self.best = best

    def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
        far = [abs(np.log10(c["x"]) - data.y[0]) + (c["kind"] == "a") for c in configs]
        return np.where(np.arange(len(far)) == np.argmin(far), self.best, 0.95)


class Nothing(Bowl):
    """No config works."""

    def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
        return np.full(len(configs), np.nan)


def clients(count: int, *others: Any) -> list[ht.Client]:
    spots = np.linspace(-1.6, -1.4, count)
    made = [ht.Client((np.zeros((2, 1)), np.array([spot, spot])), Bowl()) for spot in spots]
    return [*made, *(ht.Client((np.zeros((2, 1)), np.full(2, -1.5)), other) for other in others)]


def tune(parties: list[ht.Client], domain: Any = GRID, **changes: Any) -> ht.Result:
    return _tune(parties, domain, **{"privacy": None, **changes})


def near(config: ht.Config) -> bool:
    return config["kind"] == "b" and abs(np.log10(config["x"]) + 1.5) < 0.26


# ---- all pairs in the clear --------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_finds_what_suits_everybody(strategy: Any, tmp_path: Path) -> None:
    result = tune(clients(6), method=ht.Combine(strategy), seal=ht.Clear(), folder=tmp_path / "run")
    assert near(result.config)
    assert result.method.opens == "pairs"
    assert "the (config, loss) pairs of its own search, of each of client-00, client-01" in result.statement
    assert all(check.holds for check in ht.verify(tmp_path / "run"))


def test_an_outlier_moves_the_mean_and_not_the_median_or_the_cluster() -> None:
    far = ht.Client((np.zeros((2, 1)), np.array([0.0, 0.0])), Bowl())
    found = {s: tune([*clients(9), far], method=ht.Combine(s, scale="log"), seal=ht.Clear()).config for s in STRATEGIES}
    assert near(found["median"])
    assert near(found["dbscan"])
    assert found["mean"]["x"] > found["median"]["x"]


def test_combination_is_linear_unless_a_logarithmic_scale_is_asked_for() -> None:
    log, flat, usual = (
        tune(clients(5), method=method, seal=ht.Clear()).config
        for method in (ht.Combine(scale="log"), ht.Combine(scale="linear"), ht.Combine())
    )
    assert usual == flat
    assert flat["x"] > log["x"]


@pytest.mark.parametrize("opens", ["pairs", "sums"])
def test_the_three_best_clusters_are_returned_in_their_order(opens: Any, tmp_path: Path) -> None:
    good = {-3.0: 0.1, -2.0: 0.2, -1.0: 0.3, 0.0: 0.4}
    fours = [ht.Client((np.zeros((2, 1)), np.full(2, at)), Flat(loss)) for at, loss in good.items() for _ in range(4)]
    method = ht.Combine("dbscan", scale="log", opens=opens, radius=1e-3 if opens == "pairs" else None, min_points=4)
    result = tune(fours, method=method, seal=ht.Clear(), folder=tmp_path / "run")
    assert result.notes["clusters"] == 4
    assert [result.notes[f"mean score of the {rank}"] for rank in ("best", "second best", "third best")] == (
        pytest.approx([0.9, 0.8, 0.7], abs=1e-5)
    )
    assert result.config == {"x": pytest.approx(0.001), "kind": "b"}
    for rank, x in (("second best", 0.01), ("third best", 0.1)):
        first, second = str(result.notes[f"centre of the {rank}"]).split(", ")
        assert (first.split(" = ")[0], second) == ("x", "kind = b")
        assert float(first.split(" = ")[1]) == pytest.approx(x, rel=1e-4)
    assert "centre of the third best x = " in result.statement
    assert "centre of the best" not in result.notes
    assert all(check.holds for check in ht.verify(tmp_path / "run"))


def test_clients_without_a_finite_loss_are_left_out_and_named(tmp_path: Path) -> None:
    result = tune(clients(3, Nothing()), method=ht.Combine("dbscan"), seal=ht.Clear(), folder=tmp_path / "run")
    assert list(result.left_out) == ["client-03"]
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    with pytest.raises(AbortedError, match="nothing to combine"):
        tune(clients(0, Nothing(), Nothing()), method=ht.Combine(), seal=ht.Clear())


def test_a_space_is_searched_and_candidates_are_scored() -> None:
    by_search = tune(clients(3), SPACE, method=ht.Combine(), search=ht.Search.adaptive(8))
    assert by_search.search == ht.Search.adaptive(8)
    assert by_search.config["kind"] in "ab"
    assert tune(clients(3), method=ht.Combine()).search == ht.Search()


# ---- exact sums --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", SUMS)
@pytest.mark.parametrize("seal", [ht.Clear(), ht.Masked()], ids=["clear", "masked"])
def test_sums_give_the_same_under_every_seal(strategy: Any, seal: ht.Seal, tmp_path: Path) -> None:
    method = ht.Combine(strategy, opens="sums")
    result = tune(clients(6), method=method, seal=seal, folder=tmp_path / "run")
    assert near(result.config)
    assert result.config == tune(clients(6), method=method, seal=ht.Clear()).config
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    exact = [d for d in result.disclosures if d.mechanism == "exact sum"]
    assert len(exact) == (2 if strategy == "dbscan" else 1)


def test_the_mean_from_sums_is_the_mean_from_pairs() -> None:
    pairs, sums = (tune(clients(5), method=ht.Combine(opens=f), seal=ht.Clear()).config for f in ("pairs", "sums"))
    assert sums["x"] == pytest.approx(pairs["x"], rel=1e-4)


def test_without_a_dense_cell_all_configs_are_one_cluster() -> None:
    result = tune(clients(3), method=ht.Combine("dbscan", min_points=30, cell=0.05))
    assert result.notes["no cell was dense, so combined were"] == "all configs"
    assert near(result.config)


def test_a_cluster_may_be_small_even_if_all_cells_are_dense() -> None:
    """What a quotient is divided by is at least MinPts then, and not the number of clients."""
    method = ht.Combine("dbscan", cell=1.0, min_points=1, within=1.0, most=26)
    result = tune(clients(4), method=method)
    assert result.notes["dense cells"] == 2.0
    seen = {}

    class Seen(Replay):
        def unopened(self, query: Any) -> Any:
            return Unopened(query, lambda query, form: seen.setdefault(form.block, form) and self._form(query, form))

    result.method.run(Seen(result.run, GRID, ht.Search(), 4, result.opened))
    assert seen["sums"].least == seen["sums"].step  # one point


def test_a_cell_is_told_only_up_to_what_makes_it_dense() -> None:
    result = tune(clients(4), method=ht.Combine("dbscan", cell=1.0, min_points=3))
    assert result.opened[0].blocks["counts"] == [0, 12]  # every client has more than 3 points in that cell


# ---- noisy sums --------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [*(pytest.param(s, marks=pytest.mark.long) for s in SUMS[:2]), SUMS[2]])
def test_hundreds_of_clients_agree_under_noise(strategy: Any, tmp_path: Path) -> None:
    result = tune(
        clients(300),
        method=ht.Combine(strategy, scale="log"),
        privacy=ht.Privacy(3.0, 1e-5),
        seal=ht.Clear(),  # the noise is the same
        simulation=ht.Simulation(0),
        folder=tmp_path / "run",
    )
    assert near(result.config)
    assert result.spent.epsilon <= 3.0
    assert len(result.events) == (2 if strategy == "dbscan" else 1)
    assert all(check.holds for check in ht.verify(tmp_path / "run"))


def test_noisy_sums_come_through_masks(tmp_path: Path) -> None:
    privacy = ht.Privacy(8.0, 1e-5)
    result = tune(clients(40), method=ht.Combine("dbscan"), privacy=privacy, folder=tmp_path / "run")
    assert result.seal.name == "masked"
    assert [opened.query for opened in result.opened] == ["cell-counts", "config-sums"]
    assert all(check.holds for check in ht.verify(tmp_path / "run"))


def test_half_the_noise_is_refused_by_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    import hushtune.run.terms

    full = hushtune.run.terms.calibrate
    monkeypatch.setattr(hushtune.run.terms, "calibrate", lambda *given: Noise(full(*given).scale / 2))
    with pytest.raises(AbortedError, match="more than the stated 1"):
        tune(clients(12), method=ht.Combine("dbscan"), privacy=ht.Privacy(1.0, 1e-5))


losses = arrays.arrays(np.float64, len(GRID), elements=st.floats(allow_nan=True, allow_infinity=True, width=64))


class Known:
    def __init__(self, known: Any) -> None:
        self.known = np.asarray(known, dtype=np.float64)

    def fingerprint(self) -> str:
        return repr(self.known.tolist())

    def losses(self, configs: list[ht.Config], data: Any, seed: int) -> np.ndarray:
        return np.array([self.known[GRID.index(config)] for config in configs])


@settings(max_examples=40)
@given(losses, losses, st.booleans(), st.sampled_from([1, 3, 10]))
def test_any_two_clients_differ_by_no_more_than_is_accounted_for(
    tmp_path_factory: pytest.TempPathFactory, one: np.ndarray, other: np.ndarray, shared: bool, most: int
) -> None:
    """PRIVACY: sqrt(2) B for counts, sqrt(2) B sqrt(d + 2) for sums; B without the root of 2 in a single group."""
    folder = tmp_path_factory.mktemp("trials")
    common = (ht.Search(), GRID, (0.0, 1.0), 0.15, most, "log", 16, shared)
    cells = CellCounts(*common, 0.25, None)
    clusters = tuple(int(at) for at in np.arange(cells.cells.count) % 3 - 1)
    for query in (cells, ConfigSums(*common, 0.25, clusters), ConfigSums(*common, 0.0, ())):
        vectors = []
        for values in (one, other):
            client = ht.Client((np.zeros((1, 1)), np.zeros(1)), Known(values))
            party = Party(
                "a",
                client,
                TrialStore(folder / "trials.db"),
                folder,
                SystemRandomness(),
                secret=Secret.simulated(0, "a"),
            )
            try:
                vectors.append(query.bound.check(query.answer(party)))
            except NoLossError:
                vectors.append(query.bound.default(SystemRandomness()))
        event = query.bound.event(Noise(1.0), "replace-one")
        assert isinstance(event, SkellamVector)
        assert np.linalg.norm(vectors[0] - vectors[1]) <= event.l2
        assert np.abs(vectors[0] - vectors[1]).sum() <= event.l1


def test_both_sums_of_a_private_cluster_search_cost_about_the_same() -> None:
    facts = ht.Combine("dbscan").settled(_facts(ht.Privacy(1.0, 1e-5), ht.Masked()))
    first, second = facts.bounds(GRID)
    assert isinstance(first, Tally)
    events = [bound.event(Noise(1.0), "replace-one") for bound in (first, second)]
    assert events[0].l2 == pytest.approx(events[1].l2, rel=1e-2)  # type: ignore[attr-defined]


def _facts(privacy: ht.Privacy | None, seal: ht.Seal) -> Any:
    from hushtune.methods.base import Facts

    return Facts(GRID, 100, privacy, seal, ht.Search())


def test_records_are_protected_by_voters(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    hospitals = [ht.Client((rng.normal(size=(40, 1)), np.full(40, -1.5)), Bowl()) for _ in range(8)]
    privacy = ht.Privacy(3.0, 1e-5, unit="record")
    result = tune(
        hospitals,
        method=ht.Combine(voters=40),
        privacy=privacy,
        seal=ht.Clear(),
        simulation=ht.Simulation(1),
        folder=tmp_path / "r",
    )
    assert near(result.config)
    assert all(check.holds for check in ht.verify(tmp_path / "r"))


# ---- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        ({"strategy": "median"}, {}, "strategy 'median' needs every client's pairs in the clear"),
        ({"strategy": "mean", "opens": "pairs"}, {}, r"opens must be one of \['sums'\]"),
        ({"opens": "sums"}, {"privacy": ht.Privacy(1.0, 1e-5)}, r"opens must be one of \['noisy sums'\]"),
        ({"strategy": "dbscan", "cell": 0.01}, {"domain": ht.Space(a=ht.Float(0, 1), b=ht.Float(0, 1))}, "4096 cells"),
        ({"strategy": "dbscan", "min_points": 31}, {}, "at most what all clients can send, 3 x 10, but got 31"),
        ({"voters": 3}, {"seal": ht.Clear()}, "needs privacy with unit='record'"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anybody_is_asked(
    method: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        tune(clients(3), method=ht.Combine(**method), **changes)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("strategy", "mode"),
        ("within", 1.5),
        ("most", 0),
        ("scale", "log10"),
        ("min_points", 0),
        ("radius", 0.0),
        ("cell", 0.0),
        ("losses", (1, 0)),
        ("opens", "all"),
    ],
)
def test_settings_are_checked(field: str, value: Any) -> None:
    with pytest.raises(SettingError, match=field):
        ht.Combine(**{field: value})


def test_a_tampered_result_is_found_out(tmp_path: Path) -> None:
    tune(clients(6), method=ht.Combine("dbscan"), folder=tmp_path)
    path = tmp_path / "result.json"
    raw = json.loads(path.read_text())
    raw["opened"][0]["blocks"]["counts"] = [0] * len(raw["opened"][0]["blocks"]["counts"])
    path.write_text(json.dumps(raw))
    assert not all(check.holds for check in ht.verify(tmp_path))
