"""Flower as the engine: the same runs across real machines. Everything that knows Flower is in this file.

In the ClientApp:

    app = ClientApp()
    hushtune.flower.register(app, objective, data=load_local_data)

In the ServerApp, inside `@app.main()`:

    nodes = hushtune.flower.FlowerFederation(grid, timeout=600)
    result = hushtune.tune(nodes, candidates, method=Vote(), privacy=Privacy(1.0))
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hushtune.client.client import Client
from hushtune.client.objectives.base import Objective
from hushtune.client.release import refused
from hushtune.client.simulation import Simulation
from hushtune.core.checks import integer, kind, number
from hushtune.core.errors import SettingError, described, missing
from hushtune.core.identity import Identity
from hushtune.core.observer import Bars, Observer
from hushtune.core.roster import Id, Roster
from hushtune.core.space import Space
from hushtune.federation.base import Dropped
from hushtune.federation.endpoint import Endpoint
from hushtune.federation.envelope import Answer
from hushtune.federation.local import default_home
from hushtune.federation.remote import RemoteFederation
from hushtune.federation.settings import NodeSettings, RunSettings, loaded, run_settings
from hushtune.privacy.policy import Policy

try:
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid
    from flwr.superlink.grid import InMemoryGrid
except ImportError as error:
    raise missing("hushtune.flower", "flower", error) from None

log = logging.getLogger("hushtune")

_RECORD, _CONTENT, _ACTION = "hushtune", "content", "hushtune"
_POLL = 1.0  # seconds between two looks at who is connected
_ERRORS = {  # what the transport saw, by Flower's code: the text beside it may quote the client's own exception
    1: "its app could not be loaded",
    2: "its app failed",
    3: "the message was lost",
    4: "its reply was lost",
    5: "its node is not there any more",
    6: "its app failed",
    7: "its app was not accepted",
    8: "its app crashed",
}


# ---- the client's side -------------------------------------------------------------------------------


def register(
    app: ClientApp,
    objective: Objective,
    *,
    data: Callable[[Context], Any],
    space: Space | None = None,
    policy: Policy | str | Path | None = None,
    roster: Roster | str | Path | None = None,
    identity: Identity | str | Path | None = None,
    home: str | Path | None = None,
    jobs: int | None = None,
    simulation: Simulation | None = None,
) -> None:
    """Lets a ClientApp take part in hushtune's runs; its own train, evaluate and query functions stay as they are.

    What protects the client is better set by its operator than by the app, which the server ships; these entries of
    `--node-config` go before the arguments: `hushtune-home`, `hushtune-policy` (a TOML file), `hushtune-roster`,
    `hushtune-identity`, `hushtune-jobs`, and `hushtune-name`, what the client's ledger goes by (default: its name in
    the roster, else `client-` and the `partition-id`), and `hushtune-simulation`, a seed.

    A client takes part only in what its owner has allowed: without a policy, and without a limit in its ledger, it
    refuses every run. Under Flower's own simulation engine all nodes are one person's: there a client is marked as
    simulated, whatever a server says.

    Args:
        app: the ClientApp.
        objective: how the client scores configs.
        data: called with Flower's context, when the data is first needed; gives the client's own data.
        policy: what the client accepts, whatever the server asks, or a TOML file of it. Default: what its ledger's
            limit allows, under seals that hide every contribution.
        space: the knobs that a request may set, with their types and ranges; other candidates are refused before
            anything is scored. A policy may name a space too; then both hold. Default: the objective's own check.
        roster: the pinned roster, or its file. Default: the server's word is taken for who takes part.
        identity: the client's signing key, or its file; needed if a roster is pinned.
        home: folder of ledger and cached trials. Default: $HUSHTUNE_HOME, else .hushtune in the current folder.
        jobs: processes for scoring. Default: one per core.
        simulation: marks this client as simulated: seeded, no ledger, and its errors are shown. It then counts in
            marked simulations only. Default: under Flower's simulation engine `Simulation(0)`, else none.
    """
    if not isinstance(app, ClientApp):
        raise SettingError(f"app must be a flwr.clientapp.ClientApp, but got {type(app).__name__}")
    if not callable(data):
        raise SettingError(f"data must be a function of Flower's context, but got {type(data).__name__}")
    if objective is None:
        raise SettingError("objective must say how the client scores configs, but got None")
    for name, value, wanted in (
        ("policy", policy, (Policy, str, Path)),
        ("roster", roster, (Roster, str, Path)),
        ("identity", identity, (Identity, str, Path)),
        ("home", home, (str, Path)),
        ("jobs", jobs, (int,)),
        ("simulation", simulation, (Simulation,)),
    ):
        kind(name, value, *wanted)
    Client(lambda: None, objective, space=space)  # refuses what is no objective, and no space

    def answer(message: Message, context: Context) -> Message:
        """One message of a run."""
        node = node_name(context.node_id)
        marked = simulation or (Simulation(0) if _simulated_here() else None)
        try:
            given = NodeSettings(context.node_config, policy, roster, identity, home, jobs, marked)
            client = Client(lambda: data(context), objective, policy=given.policy, identity=given.identity, space=space)
            endpoint = Endpoint(client, given.name, node, given.home, given.roster, given.seed, given.jobs)
            content, state = endpoint.reply(_bytes_of(message.content), _bytes_of(context.state))
            _keep_state(context, state)
        except Exception as error:  # nothing of this depends on data, but it is nobody else's business either
            log.error("hushtune: this client cannot take part: %s", error)
            why = "see what its SuperNode printed" if marked is None else described(error)
            reply = refused(f"this client is not set up; {why}")
            content = Answer(reply, node, marked is not None, b"").to_bytes()
        return Message(_record_of(content), reply_to=message)

    try:
        app.query(_ACTION)(answer)
    except ValueError:
        raise SettingError("hushtune must be registered once for each ClientApp, but it is there already") from None


def _simulated_here() -> bool:
    """Whether Flower's simulation engine runs this process: then it is one of the engine's actors.

    Nothing that a server sends decides this.
    """
    ray = sys.modules.get("ray")
    if "flwr.simulation.ray_transport.ray_actor" not in sys.modules or ray is None or not ray.is_initialized():
        return False
    return ray.get_runtime_context().get_actor_id() is not None


def _keep_state(context: Context, state: bytes) -> None:
    """Keeps the secrets of a run in progress; erases them when it is over."""
    if state:
        context.state.update(_record_of(state))
    elif _RECORD in context.state:
        del context.state[_RECORD]


# ---- the server's side -------------------------------------------------------------------------------


class FlowerFederation(RemoteFederation):
    """The nodes of a Flower grid as a federation. Goes inside `@app.main()`.

    Args:
        grid: Flower's grid.
        roster: the pinned roster that all clients were given, or its file. Default: all connected nodes, as they are.
        nodes: for how many nodes to wait before anything is asked; all that are connected then take part. After
            `timeout`, those missing have dropped out of a pinned roster, and a run without one is refused. Default: as
            many as the roster names; without one, those that are connected now.
        timeout: seconds for each trip; who has not answered by then has dropped out. Scoring is part of the first one.
        home: folder of the coordinator's ledgers. Default: $HUSHTUNE_HOME, else .hushtune in the current folder.
        simulated: whether runs are marked as simulations; only clients that are marked as well count. Default: True
            under Flower's own simulation engine, else False.
        observer: is told while nodes are waited for.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        roster: Roster | str | Path | None = None,
        nodes: int | None = None,
        timeout: float = 600.0,
        home: str | Path | None = None,
        simulated: bool | None = None,
        observer: Observer = Bars(),
    ) -> None:
        if not (hasattr(grid, "send_and_receive") and hasattr(grid, "get_node_ids")):
            raise SettingError(
                f"grid must be the Grid that Flower gives to `@app.main()`, but got {type(grid).__name__}"
            )
        number("timeout", timeout, 0, 10**7, "()")
        kind("home", home, str, Path)
        kind("roster", roster, Roster, str, Path)
        pinned = loaded(Roster, roster)
        wanted = integer("nodes", nodes, 1) if nodes is not None else len(pinned) if pinned is not None else 1
        self._grid = grid
        self._timeout = timeout
        connected = _connected(grid, wanted, timeout, observer)
        self._ids = {node_name(number): number for number in connected}
        if pinned is None and len(self._ids) < wanted:
            raise SettingError(
                f"{wanted} nodes must be connected within {timeout:g} s, but got {len(self._ids)}; start more "
                "SuperNodes, ask for fewer nodes or raise the timeout"
            )
        place = Path(home) if home is not None else default_home()
        marked = isinstance(grid, InMemoryGrid) if simulated is None else simulated
        super().__init__(sorted(self._ids), self._send, place.resolve(), pinned, marked)

    def _send(self, letters: Mapping[Id, bytes]) -> Mapping[Id, bytes | Dropped]:
        """One message per node; replies are matched by the id of the message they answer."""
        messages = {
            node: Message(_record_of(letter), self._ids[node], f"query.{_ACTION}", ttl=self._timeout)
            for node, letter in letters.items()
        }
        replies = list(self._grid.send_and_receive(messages.values(), timeout=self._timeout))
        waiting = {message.metadata.message_id: node for node, message in messages.items()}
        received: dict[Id, bytes | Dropped] = dict.fromkeys(letters, Dropped(f"no reply within {self._timeout:g} s"))
        for reply in replies:
            node = waiting.pop(reply.metadata.reply_to_message_id, None)
            if node is not None:
                received[node] = _read(reply)
        return received


def _connected(grid: Grid, wanted: int, timeout: float, observer: Observer) -> list[int]:
    """The ids of all nodes, once there are as many as wanted, or the time is up."""
    end, seen = time.monotonic() + timeout, -1
    while len(found := list(grid.get_node_ids())) < wanted and time.monotonic() < end:
        if len(found) != seen:
            observer.say(f"waiting for {wanted} nodes, {len(found)} connected; at most {timeout:g} s")
            seen = len(found)
        time.sleep(_POLL)
    return found


def node_name(number: int) -> Id:
    """What a node is called in a roster that nobody pinned."""
    return f"node-{number}"


def _read(reply: Message) -> bytes | Dropped:
    if reply.has_error():
        return Dropped(_ERRORS.get(reply.error.code, "no reply"))
    content = _bytes_of(reply.content)
    return content if content else Dropped("malformed reply: it holds no bytes")


def _record_of(content: bytes) -> RecordDict:
    return RecordDict({_RECORD: ConfigRecord({_CONTENT: content})})


def _bytes_of(records: RecordDict) -> bytes:
    """What `_record_of` wrote; empty if it is something else."""
    record = records.config_records.get(_RECORD)
    content = record.get(_CONTENT) if record is not None else None
    return content if isinstance(content, bytes) else b""


def settings(context: Context) -> RunSettings:
    """What Flower's run config says: `FlowerFederation(grid, **found.federation)` and `tune(..., **found.tune)`.

    Its entries are those of `hushtune.federation.settings.run_settings`: `hushtune-epsilon` (a number, or "none"),
    `-delta`, `-unit`, `-neighbours`, `-seal`, `-dropouts`, `-corrupt`, `-ring`, `-folder`, `-timeout`, `-nodes`,
    `-roster` and `-home`.

    Args:
        context: Flower's context, as `@app.main()` gets it.
    """
    return run_settings(context.run_config)
