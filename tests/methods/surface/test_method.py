"""FLoRA end to end: pairs in the clear, an exact sum, a noisy sum; and what each of them shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import tune as _tune

import hushtune as ht
from hushtune.core.errors import HushtuneError
from hushtune.methods.surface.models import KINDS

SPACE = ht.Space(x=ht.Float(0.0, 1.0), kind=ht.Choice(["a", "b"]))
CANDIDATES = SPACE.sample(64)
SEARCH = ht.Search.adaptive(15)


class Bowl:
    """Best where x is the client's first label, kind 'b'."""

    def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
        return np.array([(c["x"] - data.y[0]) ** 2 + 0.2 * (c["kind"] == "a") for c in configs])


class Nothing(Bowl):
    """No config works."""

    def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
        return np.full(len(configs), np.nan)


def clients(count: int, *others: Any, centre: float = 0.3) -> list[ht.Client]:
    spots = np.linspace(centre - 0.05, centre + 0.05, count)
    made = [ht.Client((np.zeros((2, 1)), np.array([spot, spot])), Bowl()) for spot in spots]
    return [*made, *(ht.Client((np.zeros((2, 1)), np.full(2, centre)), other) for other in others)]


def tune(parties: list[ht.Client], domain: Any = SPACE, **changes: Any) -> ht.Result:
    return _tune(parties, domain, **{"method": ht.Surface(), "privacy": None, "search": SEARCH, **changes})


# ---- all pairs in the clear --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_each_surface_finds_what_suits_everybody(kind: Any, tmp_path: Path) -> None:
    result = tune(clients(4), method=ht.Surface(kind), seal=ht.Clear(), folder=tmp_path / "run")
    assert result.config["kind"] == "b"
    assert abs(result.config["x"] - 0.3) < 0.12
    assert result.method.opens == "pairs"
    assert result.search.to_json() == {"seed": 0, "trials": 15, "sampler": "tpe"}
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    assert ht.Result.load(tmp_path / "run").to_json() == result.to_json()


def test_the_result_says_whose_pairs_were_opened() -> None:
    result = tune(clients(3), seal=ht.Clear())
    opened = result.disclosures[0]
    assert opened.what == "the (config, loss) pairs of its own search, of each of client-00, client-01, client-02"
    assert opened.epsilon is None
    assert opened.what in result.statement
    assert "INSECURE SETTING, seal 'clear'" in result.statement
    pairs = result.pairs()
    assert [len(own.losses) for own in pairs.values()] == [15] * 3
    study = result.to_optuna()
    assert len(study.trials) == 45
    assert study.best_value == pytest.approx(min(own.losses.min() for own in pairs.values()))
    assert {trial.user_attrs["client"] for trial in study.trials} == {"client-00", "client-01", "client-02"}


def test_a_clients_own_config_may_win_in_the_clear_and_that_is_said(tmp_path: Path) -> None:
    far = SPACE.candidates([{"x": 1.0, "kind": "a"}, {"x": 0.0, "kind": "a"}])
    result = tune(clients(3), far, seal=ht.Clear(), folder=tmp_path / "run")
    assert result.index is None
    assert result.config["kind"] == "b"
    owner = result.notes["the chosen config was found by"]
    configs = SPACE.decode(result.pairs()[str(owner)].points)
    assert result.config in configs
    assert "chose a config that is not among its public candidates" in result.statement
    assert f"the chosen config was found by {owner}" in result.statement
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    ht.report(tmp_path / "run")
    masked = tune(clients(3), far, seal=ht.Masked())
    assert masked.index in (0, 1)


def test_a_client_without_a_finite_loss_is_left_out_and_named() -> None:
    result = tune(clients(2, Nothing()), seal=ht.Clear())
    assert result.left_out == {"client-02": "no config has a finite loss there"}
    assert "not counted: client-02 (no config has a finite loss there)" in result.statement
    assert result.config["kind"] == "b"
    exact = tune(clients(10, Nothing()))
    assert exact.dropped == {"client-10": "refused: no config has a finite loss here"}


def test_clipped_losses_are_counted() -> None:
    narrow = ht.Surface(losses=(0.0, 0.1))
    opened = tune(clients(3), method=narrow, seal=ht.Clear())
    assert 0 < int(opened.notes["clipped losses"]) < 45
    assert tune(clients(3), method=narrow).notes["clipped losses"] == opened.notes["clipped losses"]
    assert f"clipped losses {opened.notes['clipped losses']}" in opened.statement


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_than_two_configs_are_an_error(kind: Any) -> None:
    with pytest.raises(
        ht.SpentError, match="at least 2 distinct configs with a loss, but got 0; 1 of 1 openings had been made"
    ):
        tune(clients(0, Nothing(), Nothing()), method=ht.Surface(kind), seal=ht.Clear())
    with pytest.raises(ht.SettingError, match="at least 2 trials"):
        tune(clients(2), method=ht.Surface(kind), seal=ht.Clear(), search=ht.Search.adaptive(1))


def test_only_the_best_pairs_are_sent() -> None:
    result = tune(clients(3), method=ht.Surface("mplm", send=4), seal=ht.Clear())
    assert [len(own.losses) for own in result.pairs().values()] == [4] * 3
    assert result.disclosures[0].shape == (3, 2 + 4 * (3 + 1))


def test_heterogeneity_is_noted_where_the_pairs_are_open() -> None:
    result = tune(clients(3), seal=ht.Clear())
    best = [1 - own.losses.min() for own in result.pairs().values()]
    assert result.notes["gamma_p"] == pytest.approx(max(best) / min(best))
    assert "gamma_p" not in tune(clients(3)).notes


def test_candidates_may_be_scored_instead_of_searched() -> None:
    result = tune(clients(3), CANDIDATES, search=ht.Search(), seal=ht.Clear())
    assert [len(own.losses) for own in result.pairs().values()] == [64] * 3


def test_a_gaussian_process_and_its_limit() -> None:
    result = tune(clients(3), method=ht.Surface("sgm+u", model="gp"), seal=ht.Clear())
    assert result.config["kind"] == "b"
    with pytest.raises(ht.SettingError, match="at most 2000 pairs in all, but 40 clients send 64 each; try send=50"):
        tune(clients(40), CANDIDATES, method=ht.Surface("sgm", model="gp"), seal=ht.Clear(), search=ht.Search())


@pytest.mark.long  # test_runfolder has a vote's
def test_the_same_folder_takes_up_an_interrupted_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hushtune.methods.surface import method as surface

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(surface, "loss_surfaces", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune(clients(3), seal=ht.Clear(), folder=tmp_path / "run")
    again = tune(clients(3), seal=ht.Clear(), folder=tmp_path / "run")
    assert again.traffic == {"trips": 0, "messages": 0.0, "bytes": 0}  # what was opened is on record
    assert again.config == tune(clients(3), seal=ht.Clear()).config


# ---- sums --------------------------------------------------------------------------------------------


def test_the_exact_sum_is_the_average_of_the_clients_own_models() -> None:
    candidates = SPACE.sample(32)
    masked = tune(clients(4), SPACE, method=ht.Surface("aplm", candidates=candidates))
    clear = tune(clients(4), candidates, seal=ht.Clear())
    from hushtune.methods.surface.models import loss_surfaces

    expected = loss_surfaces(("aplm",), list(clear.pairs().values()), candidates.encoded)["aplm"]
    found = np.array(masked.opened[0].blocks["scores"]) / 2**20 / 4
    np.testing.assert_allclose(found, 1 - expected, atol=5e-3)  # pairs are opened on a grid, which may move a split
    assert masked.method.opens == "sum"
    assert masked.index == int(np.argmax(found))
    assert masked.disclosures[0].mechanism == "exact sum"


@pytest.mark.long  # the matrix has a smaller one
def test_a_private_surface(tmp_path: Path) -> None:
    result = tune(clients(20), CANDIDATES, privacy=ht.Privacy(40.0), folder=tmp_path / "run")
    assert result.config["kind"] == "b"
    assert abs(result.config["x"] - 0.3) < 0.2
    assert result.notes == {}
    assert result.method.opens == "noisy sum"
    assert result.spent.epsilon <= 40.0
    assert result.disclosures[0].what == "summed centred predicted scores, one entry per candidate"
    assert all(check.holds for check in ht.verify(tmp_path / "run"))
    ht.report(tmp_path / "run")


@pytest.mark.long
def test_with_epsilon_a_client_without_a_finite_loss_looks_like_any_other(tmp_path: Path) -> None:
    """Everything that is visible has the same shape and the same words, and nobody is named."""
    kinds = {"works": Bowl(), "nothing": Nothing(), "fails": None}
    seen = {}
    for name, objective in kinds.items():
        parties = clients(9, objective or _Failing())
        result = tune(parties, CANDIDATES, privacy=ht.Privacy(1.0), home=tmp_path / name)
        raw = result.to_json()
        raw["opened"][0]["blocks"] = {block: len(v) for block, v in raw["opened"][0]["blocks"].items()}
        del raw["ledger"]["id"]  # drawn when the ledger was made
        seen[name] = {
            key: value for key, value in raw.items() if key not in ("run", "config", "index", "seconds", "statement")
        }
    assert seen["works"] == seen["nothing"] == seen["fails"]


class _Failing(Bowl):
    def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
        raise RuntimeError("secret")


@pytest.mark.statistical
@pytest.mark.long
def test_smoothing_helps_a_noisy_surface() -> None:
    """The true loss of what is chosen, over 30 draws: better by 6 standard errors (false alarm below 1e-8)."""
    reference = ht.Client((np.zeros((2, 1)), np.full(2, 0.3)), Bowl())
    simulation = ht.Simulation(0, reference, draws=30)
    result = tune(clients(30), SPACE.sample(128), privacy=ht.Privacy(3.0), simulation=simulation)
    assert result.simulation is not None
    means = result.simulation["figures"]["means"]
    assert means["smooth"] > means["argmax"] + 0.02
    assert result.simulation["figures"]["gamma_p"] >= 1
    assert result.simulation["figures"]["opt"] > 0.99
    assert "random_guess" not in result.simulation["figures"]


@pytest.mark.long  # the matrix has a smaller one
def test_records_may_be_the_unit() -> None:
    rows = [ht.Client((np.zeros((40, 1)), np.full(40, 0.3)), Bowl()) for _ in range(3)]
    privacy = ht.Privacy(10.0, unit="record")
    result = tune(rows, CANDIDATES, method=ht.Surface(voters=4), privacy=privacy, search=ht.Search.adaptive(5))
    assert result.spent.epsilon <= 10.0
    assert "each with 4 voters" in result.statement


# ---- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sgm", "sgm+u", "mplm"])
@pytest.mark.parametrize("changes", [{"seal": ht.Clear(), "privacy": ht.Privacy(1.0)}, {"seal": ht.Masked()}])
def test_what_needs_every_pair_cannot_be_protected(kind: Any, changes: dict[str, Any], home: Path) -> None:
    with pytest.raises(ht.SettingError, match=r"needs every client's pairs in the clear.*'aplm' is an average"):
        tune(clients(3), method=ht.Surface(kind), **changes)
    assert not home.exists()


def test_a_run_gathers_nothing_that_is_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a method is wrong about it."""
    monkeypatch.setattr(ht.Surface, "_opens", lambda self, privacy, seal: "pairs")
    with pytest.raises(HushtuneError, match="under seal 'clear' and without epsilon only"):
        tune(clients(3), seal=ht.Masked())
    with pytest.raises(HushtuneError, match="no epsilon covers"):
        tune(clients(3), seal=ht.Clear(), privacy=ht.Privacy(1.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "max"}, "kind must be one of"),
        ({"kind": np.array(["sgm", "aplm"])}, "kind must be one of"),
        ({"spread": 1e-300}, "spread"),
        ({"model": "tree"}, "model must be one of"),
        ({"kind": "mplm", "model": "gp"}, "model='gp' is for"),
        ({"decode": "argmin"}, "decode must be one of"),
        ({"losses": (1.0, 1.0)}, "smallest < largest"),
        ({"losses": (0.0, float("nan"))}, "losses"),
        ({"losses": 1.0}, "pair"),
        ({"send": 1}, "2 <= send"),
        ({"spread": 0.0}, "spread"),
        ({"spread": 0.6}, "spread"),
        ({"alpha": -1}, "alpha"),
        ({"voters": 0}, "voters"),
        ({"candidates": SPACE}, "candidates must be space.sample"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        ht.Surface(**settings)


def test_what_cannot_give_a_surface_is_refused_before_anything_is_opened(home: Path) -> None:
    odd = SPACE.candidates([{"x": 0.0, "kind": "a"}, {"x": -3.0, "kind": "a"}, {"x": 0.5, "kind": "c"}])
    for domain, changes, message in (
        (SPACE.sample(1), {"privacy": ht.Privacy(1.0)}, "at least 2 candidates"),
        (odd, {"seal": ht.Clear(), "search": ht.Search()}, "must lie inside"),
        (SPACE, {"method": ht.Surface(opens="pairs")}, "opens follows from kind, seal and privacy: it must be 'sum'"),
    ):
        with pytest.raises(ht.SettingError, match=message):
            tune(clients(3), domain, **changes)
    assert not home.exists()


@pytest.mark.parametrize("seal", [ht.Clear(), ht.Masked()], ids=["pairs", "sum"])
def test_a_flat_surface_is_an_error_that_names_the_range(seal: Any) -> None:
    class Far(Bowl):
        def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
            return 100 + super().losses(configs, data, seed)

    far = [ht.Client((np.zeros((2, 1)), np.zeros(2)), Far()) for _ in range(3)]
    with pytest.raises(
        ht.SpentError, match=r"all are alike; some were clipped to losses=\(0.0, 1.0\); 1 of 1 openings"
    ):
        tune(far, seal=seal)


@pytest.mark.parametrize("seal", [ht.Clear(), ht.Masked()], ids=["pairs", "sum"])
def test_if_everything_is_alike_that_is_noted(seal: Any) -> None:
    class Even(Bowl):
        def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
            return np.full(len(configs), 0.5)

    result = tune([ht.Client((np.zeros((2, 1)), np.zeros(2)), Even()) for _ in range(3)], seal=seal)
    assert result.notes["the surface"] == "flat: all configs are alike to it"
    assert "the surface flat" in result.statement


def test_odd_names_of_knobs() -> None:
    class Odd(Bowl):
        def losses(self, configs: Any, data: Any, seed: int) -> np.ndarray:
            return np.array([(c["configs"] - 0.3) ** 2 + 0.1 * c["space"] for c in configs])

    space = ht.Space(space=ht.Float(0.0, 1.0), configs=ht.Float(0.0, 1.0))
    parties = [ht.Client((np.zeros((2, 1)), np.zeros(2)), Odd()) for _ in range(3)]
    result = tune(parties, space, seal=ht.Clear())
    assert abs(result.config["configs"] - 0.3) < 0.3


def test_numpys_numbers_are_numbers(tmp_path: Path) -> None:
    method = ht.Surface(send=np.int64(4), alpha=np.float32(0.5), spread=np.float64(0.1))
    tune(clients(3), seal=ht.Clear(), method=method, folder=tmp_path / "run")
    assert ht.Surface(send=np.int64(4)) == ht.Surface(send=4)


def test_a_vote_has_no_pairs() -> None:
    assert tune(clients(3), CANDIDATES, method=ht.Vote(1), search=None).pairs() == {}


def test_a_client_limits_its_work() -> None:
    busy = clients(3)
    for client in busy:
        client.policy = ht.Policy(work=10)
    with pytest.raises(ht.AbortedError, match="policy: at most 10 configs are scored for a run, but got 15"):
        tune(busy)
    assert tune(busy, search=ht.Search.adaptive(10)).answered == 3


def test_candidates_of_another_space_or_two_lists_are_refused() -> None:
    other = ht.Space(x=ht.Float(0.0, 2.0)).sample(8)
    with pytest.raises(ht.SettingError, match="of the space that is tuned"):
        tune(clients(3), SPACE, method=ht.Surface(candidates=other))
    with pytest.raises(ht.SettingError, match="not different ones to both"):
        tune(clients(3), CANDIDATES, method=ht.Surface(candidates=SPACE.sample(8)))
    with pytest.raises(ht.SettingError, match="method 'vote' does not search"):
        tune(clients(3), SPACE, method=ht.Vote(1), search=None)
    with pytest.raises(ht.SettingError, match="voters=2 needs privacy"):
        tune(clients(3), seal=ht.Clear(), method=ht.Surface(voters=2))
