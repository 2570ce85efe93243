"""Without an extra: one line that names it. With it, installed from the wheel into an empty environment: a use."""

from __future__ import annotations

import pytest
from tests.release.place import Dist, Place
from tests.release.test_core import STUDY

pytestmark = pytest.mark.release

CLIENTS = """
    import hushtune as ht

    def clients():
        return [ht.Client(([[0.0]], [0]), ht.TorchObjective(lambda: None))]
"""
STUDIES = {
    "gp.toml": STUDY.replace('"vote"', '"surface"') + '\n    [search]\n    trials = 3\n    sampler = "gp"\n',
    "sealed.toml": STUDY + '\n    [seal]\n    name = "threshold"\n',
    "own.toml": """
        [clients]
        factory = "own:clients"
        [space]
        lr = { type = "float", low = 0.1, high = 1.0 }
        [candidates]
        grid = { lr = 3 }
        [method]
        name = "vote"
    """,
}
COMMANDS = {
    "torch": [
        "python -m experiments speed",
        "python -m experiments dp-hype",
        "python -m experiments privtuna --train",
        "python -m experiments fts --task emnist",
        "hushtune run gp.toml --out runs/gp --quiet",
        "hushtune run own.toml --out runs/own --quiet",
    ],
    "dpsgd": ["python -m experiments central"],
    "flower": ["python -m experiments flower"],
    "mhe": ["python -m experiments mhe", "hushtune run sealed.toml --out runs/sealed --quiet"],
}
USES = {
    "torch": "hushtune.TorchObjective",
    "dpsgd": "hushtune.DPSGD",
    "flower": "hushtune.flower",
}
NETWORKS = """
    import numpy as np
    import torch
    import hushtune as ht

    def network():
        return torch.nn.Linear(4, 2)

    if __name__ == "__main__":
        rng = np.random.default_rng(0)
        rows = [(rng.normal(size=(40, 4)), rng.integers(0, 2, 40)) for _ in range(5)]
        clients = [ht.Client(data, ht.TorchObjective(network, epochs=2), name=f"c{n}") for n, data in enumerate(rows)]
        candidates = ht.Space(lr=ht.Float(0.01, 1.0, log=True)).grid(lr=4)
        result = ht.tune(clients, candidates, method=ht.Vote(), privacy=ht.Privacy(3.0), observer=ht.Silent())
        assert 0 < result.spent.epsilon <= 3.0
        print(result.config["lr"])
"""
PRIVATE_MODEL = """
    import numpy as np
    import torch
    import hushtune as ht

    def network():
        return torch.nn.Linear(4, 2)

    if __name__ == "__main__":
        rng = np.random.default_rng(0)
        fitted = ht.fit(
            (rng.normal(size=(200, 4)), rng.integers(0, 2, 200)),
            ht.Space(lr=ht.Float(0.1, 1.0)).grid(lr=2),
            method=ht.NoisyMax(voters=5),
            trainer=ht.DPSGD(ht.TorchObjective(network, epochs=1), batch=50, epochs=1),
            privacy=ht.Privacy(4.0, 1e-5, "record", "add-remove"),
            folder="runs/model",
            observer=ht.Silent(),
        )
        assert 0 < fitted.spent.epsilon <= 4.0
        network().load_state_dict(torch.load("runs/model/model.pt", weights_only=True))
        print(fitted.config["lr"])
"""
NODES = """
    import numpy as np
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation
    import hushtune as ht
    import hushtune.flower

    @ht.objective
    def distance(config, data):
        return float(abs(config["x"] - np.mean(data.y)))

    def data(context):
        rng = np.random.default_rng(context.node_config["partition-id"])
        return np.zeros((6, 1)), rng.normal(0.3, 0.1, 6)

    client_app, server_app = ClientApp(), ServerApp()
    hushtune.flower.register(client_app, distance, data=data, jobs=1)

    @server_app.main()
    def main(grid, context):
        candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
        nodes = hushtune.flower.FlowerFederation(grid, nodes=5, timeout=600)
        result = ht.tune(nodes, candidates, method=ht.Vote(), privacy=ht.Privacy(5.0), observer=ht.Silent())
        result.save("runs/nodes")

    if __name__ == "__main__":
        run_simulation(server_app, client_app, 5, backend_config={"client_resources": {"num_cpus": 1}})
"""
ENCRYPTED = """
    import numpy as np
    import hushtune as ht

    @ht.objective
    def distance(config, data):
        return float(abs(config["x"] - np.mean(data.y)))

    if __name__ == "__main__":
        clients = [ht.Client((np.zeros((2, 1)), np.full(2, 0.5)), distance, name=f"c{n}") for n in range(3)]
        candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
        result = ht.tune(clients, candidates, method=ht.Vote(k=1), seal=ht.Threshold(), observer=ht.Silent())
        assert result.seal.name == "threshold"
        print(result.config["x"])
"""


def prepare(place: Place, dist: Dist) -> None:
    place.unpack(dist, "experiments")
    place.write("own.py", CLIENTS)
    for name, text in STUDIES.items():
        place.write(name, text)


@pytest.mark.parametrize("extra", sorted(COMMANDS))
def test_without_it_a_command_is_refused_in_one_line_that_names_it(extra: str, core: Place, dist: Dist) -> None:
    prepare(core, dist)
    for command in COMMANDS[extra]:
        line = core.refusal(*command.split())
        assert line.startswith("error: "), line
        assert f"`pip install 'hushtune[{extra}]'`" in line, line
        assert extra != "mhe" or "run `hushtune mhe setup`" in line, line
    assert not (core.work / "runs" / "sealed").exists()


@pytest.mark.parametrize("extra", sorted(USES))
def test_without_it_a_script_gets_an_error_that_names_it(extra: str, core: Place) -> None:
    said = core.script(
        f"""
        import hushtune
        try:
            {USES[extra]}
        except hushtune.HushtuneError as error:
            assert isinstance(error, ImportError)
            print(error)
        """
    )
    assert len(said.splitlines()) == 1
    assert f"`pip install 'hushtune[{extra}]'`" in said


def test_torch_scores_for_a_vote_and_private_training_needs_more(dist: Dist, empty: Place) -> None:
    empty.install(f"{dist.wheel}[torch]")
    assert 0.01 <= float(empty.script(NETWORKS)) <= 1.0
    empty.unpack(dist, "experiments")
    assert "`pip install 'hushtune[dpsgd]'`" in empty.refusal("python", "-m", "experiments", "central")


def test_dpsgd_fits_a_private_model(dist: Dist, empty: Place) -> None:
    empty.install(f"{dist.wheel}[dpsgd]")
    assert float(empty.script(PRIVATE_MODEL)) in (0.1, 1.0)


def test_flower_runs_a_masked_vote_over_simulated_nodes(dist: Dist, empty: Place) -> None:
    empty.install(f"{dist.wheel}[flower]")
    empty.script(NODES)
    verified = empty.hushtune("verify", "runs/nodes")
    assert "epsilon computed from the events is the epsilon stated" in verified
    assert "FAIL" not in verified


def test_mhe_is_set_up_and_opens_an_encrypted_vote(dist: Dist, empty: Place) -> None:
    empty.install(f"{dist.wheel}[mhe]")
    assert "OpenFHE can be imported" in empty.hushtune("mhe", "setup")
    assert float(empty.script(ENCRYPTED)) == 0.5
