"""hushtune on a SuperLink and SuperNodes as real processes, which are killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.federation.flower.deployment import Deployment, wait_until

import hushtune as ht
from hushtune.core.roster import Roster

pytestmark = pytest.mark.flower

NODES = 5


class Pace:
    """Holds trips of a run up."""

    def __init__(self, folder: Path, *held: int) -> None:
        folder.mkdir()
        self.folder = folder
        for trip in held:
            (folder / f"hold-{trip}").touch()

    def reached(self, trip: int) -> None:
        wait_until(f"trip {trip}", (self.folder / f"before-{trip}").exists, seconds=240)

    def release(self, trip: int) -> None:
        (self.folder / f"hold-{trip}").unlink()

    def server(self) -> int:
        return int((self.folder / "pid").read_text())


def identities(folder: Path) -> Path:
    """Five identities and the roster that pins them."""
    folder.mkdir(parents=True)
    made = [ht.Identity.new() for _ in range(NODES)]
    for number, identity in enumerate(made):
        identity.save(folder / f"{number}.key")
    Roster(tuple(f"clinic-{n}" for n in range(NODES)), tuple(i.public for i in made), os.urandom(32)).save(
        folder / "roster.toml"
    )
    return folder


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return identities(tmp_path_factory.mktemp("pins") / "keys")


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with Deployment(tmp_path_factory.mktemp("deployment")) as it:
        yield it


def own(pinned: Path, number: int) -> str:
    return f"hushtune-roster='{pinned / 'roster.toml'}' hushtune-identity='{pinned / f'{number}.key'}'"


def scored(deployment: Deployment) -> list[int]:
    """How many configs each node has ever scored."""
    return [len((deployment.folder / f"node-{n}" / "scored").read_text()) for n in range(NODES)]


def test_a_masked_vote_after_the_server_app_was_killed_on_the_way(deployment: Deployment, tmp_path: Path) -> None:
    deployment.ensure(dict.fromkeys(range(NODES), ""))
    state = tmp_path / "run"
    first = Pace(tmp_path / "first", 1)
    run = deployment.submit(pace=first.folder, out=tmp_path / "none", hushtune_folder=state)
    first.reached(1)  # everybody has scored
    os.kill(first.server(), signal.SIGKILL)
    assert "failed" in deployment.finished(run)
    assert scored(deployment) == [5] * NODES
    begun = json.loads((state / "run.json").read_text())

    second = Pace(tmp_path / "second")
    run = deployment.submit(pace=second.folder, out=tmp_path / "out", hushtune_folder=state)
    assert "completed" in deployment.finished(run), (deployment.folder / "link.log").read_text()[-3000:]
    result = ht.Result.load(tmp_path / "out")
    print(f"\n{NODES} nodes deployed: {result.traffic}, seconds {result.seconds}")
    assert result.opened[0].blocks["votes"] == [1] * NODES
    assert result.dropped == result.late == {}
    assert result.run == begun["run"]
    assert scored(deployment) == [5] * NODES  # nothing was scored twice
    assert sorted(path.name for path in second.folder.glob("before-*")) == [f"before-{n}" for n in range(4)]
    assert "the server is trusted not to impersonate" in result.statement
    for number in range(NODES):
        ledger = ht.Ledger(deployment.folder / f"node-{number}" / "clients" / f"client-{number}" / "ledger.db")
        assert len(ledger.entries()) == 1


def test_one_killed_before_its_input_and_one_after(deployment: Deployment, pinned: Path, tmp_path: Path) -> None:
    deployment.ensure({number: own(pinned, number) for number in range(NODES)})
    pace = Pace(tmp_path / "pace", 2, 3)
    run = deployment.submit(
        pace=pace.folder, out=tmp_path / "out", hushtune_roster=pinned / "roster.toml", hushtune_timeout=25.0
    )
    pace.reached(2)
    deployment.kill(1)
    pace.release(2)
    pace.reached(3)
    deployment.kill(3)
    pace.release(3)
    assert "completed" in deployment.finished(run), (deployment.folder / "link.log").read_text()[-3000:]
    result = ht.Result.load(tmp_path / "out")
    assert result.opened[0].blocks["votes"] == [1, 0, 1, 1, 1]
    assert set(result.dropped) == {"clinic-1"}
    assert set(result.late) == {"clinic-3"}
    assert "even if it lies" in result.statement


def test_too_many_killed_abort_and_the_ledgers_hold_the_reserved_budget(
    deployment: Deployment, pinned: Path, tmp_path: Path
) -> None:
    (tmp_path / "policy.toml").write_text("epsilon = 1.0\ndelta = 1e-5\n")
    policy = f" hushtune-policy='{tmp_path / 'policy.toml'}'"
    deployment.ensure({number: own(pinned, number) + policy for number in range(NODES)})
    pace = Pace(tmp_path / "pace", 2)
    run = deployment.submit(
        pace=pace.folder,
        out=tmp_path / "out",
        hushtune_epsilon=1.0,
        hushtune_roster=pinned / "roster.toml",
        hushtune_timeout=25.0,
        hushtune_folder=tmp_path / "run",
    )
    pace.reached(2)
    for number in (0, 2, 4):
        deployment.kill(number)
    pace.release(2)
    ended = deployment.finished(run)
    assert "failed" in ended
    assert "nothing was opened" in ended
    assert not (tmp_path / "out").exists()
    assert json.loads((tmp_path / "run" / "run.json").read_text())["opened"] == []
    digest = Roster.load(pinned / "roster.toml").digest()[:16]
    coordinator = ht.Ledger(deployment.folder / "link" / "coordinator" / f"ledger-{digest}.db")
    assert coordinator.spent().epsilon <= 1.0
    assert [entry.opened for entry in coordinator.entries()][-1] is False
    for number in range(NODES):
        ledger = ht.Ledger(deployment.folder / f"node-{number}" / "clients" / f"clinic-{number}" / "ledger.db")
        assert ledger.spent().epsilon <= 1.0


# ---- TLS and node authentication ---------------------------------------------------------------------


def shell(folder: Path, *commands: str) -> None:
    for command in commands:
        subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """As the docs make them."""
    folder = tmp_path / "tls"
    folder.mkdir()
    (folder / "server.ext").write_text(
        "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
    )
    shell(
        folder,
        "openssl ecparam -name prime256v1 -genkey -noout -out ca.key",
        'openssl req -x509 -new -key ca.key -sha256 -days 365 -subj "/CN=test-ca" '
        '-addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" -out ca.crt',
        "openssl ecparam -name prime256v1 -genkey -noout -out server.key",
        'openssl req -new -key server.key -subj "/CN=localhost" -out server.csr',
        "openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -sha256 -days 365 "
        "-extfile server.ext -out server.crt",
        *(f'ssh-keygen -q -t ecdsa -b 384 -N "" -C node-{n} -f node-{n}' for n in range(4)),
    )
    return folder


def test_with_tls_and_node_authentication(certificates: Path, pinned: Path, tmp_path: Path) -> None:
    with Deployment(tmp_path / "it", tls=certificates) as deployment:
        for number in range(3):
            deployment.flwr("supernode", "register", str(certificates / f"node-{number}.pub"), "it")
            deployment.start_node(number, own(pinned, number), certificates / f"node-{number}")
        deployment.start_node(3, own(pinned, 3), certificates / "node-3")  # nobody registered it
        assert deployment.nodes[3].wait(60) != 0
        assert "Exit Code: 305" in (deployment.folder / "node-3.log").read_text()
        deployment.wait_for_nodes(3)
        pace = Pace(tmp_path / "pace")
        run = deployment.submit(
            pace=pace.folder, out=tmp_path / "out", hushtune_roster=pinned / "roster.toml", hushtune_nodes=3
        )
        assert "completed" in deployment.finished(run), (deployment.folder / "link.log").read_text()[-3000:]
    result = ht.Result.load(tmp_path / "out")
    assert set(result.dropped) == {"clinic-3", "clinic-4"}
    assert result.opened[0].blocks["votes"] == [1, 1, 1, 0, 0]
