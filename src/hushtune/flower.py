"""Flower as the engine: the same runs across real machines. Everything that knows Flower is in this file.

In the ClientApp:

    app = ClientApp()
    hushtune.flower.register(app, objective, data=load_local_data)

In the ServerApp, inside `@app.main()`:

    result = hushtune.flower.tune(grid, candidates, method=Vote(), privacy=Privacy(1.0), seal=Masked(), timeout=600)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import hushtune.methods  # noqa: F401 (its queries must be known before a client is asked one)
from hushtune.checks import integer, kind, number
from hushtune.client import Client
from hushtune.errors import SettingError, missing
from hushtune.federation.base import Dropped
from hushtune.federation.endpoint import Endpoint
from hushtune.federation.envelope import Answer
from hushtune.federation.local import default_home
from hushtune.federation.remote import RemoteFederation
from hushtune.identity import Identity
from hushtune.method import Method
from hushtune.objectives.base import Objective
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.policy import Policy
from hushtune.privacy.release import refused
from hushtune.progress import Progress
from hushtune.result import Result
from hushtune.roster import Id, Roster, check_name
from hushtune.seals import seal_from_json
from hushtune.seals.base import Seal
from hushtune.seals.masked import Masked
from hushtune.search import Search, default_jobs
from hushtune.simulation import Simulation
from hushtune.space import Domain
from hushtune.tuning import conduct

try:
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid
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
    the roster, else `client-` and the `partition-id`).

    Args:
        app: the ClientApp.
        objective: how the client scores configs.
        data: called with Flower's context, when the data is first needed; gives the client's own data.
        policy: what the client accepts, whatever the server asks, or a TOML file of it. Default: all its ledger allows.
        roster: the pinned roster, or its file. Default: the server's word is taken for who takes part.
        identity: the client's signing key, or its file; needed if a roster is pinned.
        home: folder of ledger and cached trials. Default: $HUSHTUNE_HOME, else .hushtune in the current folder.
        jobs: processes for scoring. Default: one per core.
        simulation: marks this client as simulated: seeded, no ledger. It then counts in marked simulations only.
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
    Client(lambda: None, objective)  # refuses what is no objective

    def answer(message: Message, context: Context) -> Message:
        """One message of a run."""
        node = node_name(context.node_id)
        try:
            given = _NodeSettings(context.node_config, policy, roster, identity, home, jobs)
            client = Client(lambda: data(context), objective, policy=given.policy, identity=given.identity)
            seed = simulation.seed if simulation is not None else None
            endpoint = Endpoint(client, given.name, node, given.home, given.roster, seed, given.jobs)
            content, state = endpoint.reply(_bytes_of(message.content), _bytes_of(context.state))
            _keep_state(context, state)
        except Exception as error:  # nothing of this depends on data, but it is nobody else's business either
            log.error("hushtune: this client cannot take part: %s", error)
            reply = refused("this client is not set up; see what its SuperNode printed")
            content = Answer(reply, node, simulation is not None, b"").to_bytes()
        return Message(_record_of(content), reply_to=message)

    try:
        app.query(_ACTION)(answer)
    except ValueError:
        raise SettingError("hushtune must be registered once for each ClientApp, but it is there already") from None


class _NodeSettings:
    """What a client's operator set, and otherwise the app."""

    def __init__(
        self,
        config: Mapping[str, Any],
        policy: Policy | str | Path | None,
        roster: Roster | str | Path | None,
        identity: Identity | str | Path | None,
        home: str | Path | None,
        jobs: int | None,
    ) -> None:
        found = _own(config, ("home", "name", "policy", "roster", "identity", "jobs"))
        for name in ("home", "policy", "roster", "identity"):
            kind(f"hushtune-{name}", found.get(name), str)
        self.home = Path(found.get("home") or home or default_home()).expanduser()
        self.policy = _loaded(Policy, found.get("policy", policy))
        self.roster = _loaded(Roster, found.get("roster", roster))
        self.identity = _loaded(Identity, found.get("identity", identity))
        wanted = found.get("jobs", jobs)
        self.jobs = default_jobs() if wanted is None else integer("hushtune-jobs", wanted, 1, 1024)
        if self.roster is not None and self.identity is None:
            raise SettingError("a pinned roster needs an identity: set hushtune-identity in --node-config")
        self.name = self._name(config, found)

    def _name(self, config: Mapping[str, Any], found: Mapping[str, Any]) -> Id:
        name: Id
        if self.roster is not None and self.identity is not None:
            for name, key in zip(self.roster.ids, self.roster.keys or (), strict=True):
                if key == self.identity.public:
                    if found.get("name", name) != name:
                        raise SettingError(
                            f"hushtune-name must be '{name}', as in the roster, but got {found['name']!r}"
                        )
                    return name
            raise SettingError("the roster must hold this client's identity, but it does not")
        if "name" in found:
            return check_name(found["name"])
        if "partition-id" not in config:
            raise SettingError("a client needs a name: set hushtune-name or partition-id in --node-config")
        return f"client-{integer('partition-id', config['partition-id'], 0)}"


_Kind = TypeVar("_Kind", Policy, Roster, Identity)


def _loaded(wanted: type[_Kind], given: _Kind | str | Path | None) -> _Kind | None:
    return wanted.load(given) if isinstance(given, str | Path) else given


def _own(config: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """The entries of a Flower config that are for hushtune, without their prefix; unknown ones are refused."""
    found = {key.removeprefix("hushtune-"): value for key, value in config.items() if key.startswith("hushtune-")}
    if unknown := sorted(set(found) - set(known)):
        names = [f"hushtune-{name}" for name in unknown]
        raise SettingError(f"hushtune knows the settings {[f'hushtune-{name}' for name in known]}, but got {names}")
    return found


def _keep_state(context: Context, state: bytes) -> None:
    """Keeps the secrets of a run in progress; erases them when it is over."""
    if state:
        context.state.update(_record_of(state))
    elif _RECORD in context.state:
        del context.state[_RECORD]


# ---- the server's side -------------------------------------------------------------------------------


def tune(
    grid: Grid,
    candidates: Domain,
    *,
    method: Method,
    privacy: Privacy | None = None,
    seal: Seal | None = None,
    roster: Roster | str | Path | None = None,
    nodes: int | None = None,
    timeout: float = 600.0,
    search: Search | None = None,
    simulation: Simulation | None = None,
    ledger: Ledger | None = None,
    folder: str | Path | None = None,
    home: str | Path | None = None,
    quiet: bool = False,
) -> Result:
    """`hushtune.tune` over the nodes of a Flower grid. Goes inside `@app.main()`.

    Args:
        grid: Flower's grid.
        candidates: the public list to choose from, or the space itself, for a method that searches it.
        method: who is asked what, and how the server decides, e.g. `Vote()`.
        privacy: the guarantee for everything opened. None: exact values are opened, and the statement says so.
        seal: how single contributions stay hidden. Default: `Masked()`.
        roster: the pinned roster that all clients were given, or its file. Default: all connected nodes, as they are.
        nodes: for how many nodes to wait before anything is asked; all that are connected then take part. After
            `timeout`, those missing have dropped out of a pinned roster, and a run without one is refused. Default: as
            many as the roster names; without one, those that are connected now.
        timeout: seconds for each trip; who has not answered by then has dropped out. Scoring is part of the first one.
        search: how clients fill their trials. Default: as in `hushtune.tune`.
        simulation: marks the run as a simulation; only clients that are registered with such a mark count.
        ledger: the coordinator's ledger. Default: one per roster, under `home`; all unpinned nodes share one.
        folder: where the run keeps its state; the same call with the same folder resumes it.
        home: folder of the coordinator's ledgers. Default: $HUSHTUNE_HOME, else .hushtune in the current folder.
        quiet: no progress bars.

    Raises what `hushtune.tune` raises.
    """
    if not (hasattr(grid, "send_and_receive") and hasattr(grid, "get_node_ids")):
        raise SettingError(f"grid must be the Grid that Flower gives to `@app.main()`, but got {type(grid).__name__}")
    number("timeout", timeout, 0, 10**7, "()")
    for name, value in (("folder", folder), ("home", home)):
        kind(name, value, str, Path)
    kind("simulation", simulation, Simulation)
    if simulation is not None and simulation.reference is not None:
        raise SettingError("reference figures need all clients in one process; use hushtune.tune for those")
    kind("roster", roster, Roster, str, Path)
    place = Path(home) if home is not None else default_home()
    found = FlowerFederation(grid, _loaded(Roster, roster), nodes, timeout, place, simulation is not None, quiet)
    seed = simulation.seed if simulation is not None else None
    return conduct(found, candidates, method, privacy, seal, search, ledger, folder, quiet, seed)


class FlowerFederation(RemoteFederation):
    """The nodes of a Flower grid as a federation; the arguments are those of `tune`."""

    def __init__(
        self,
        grid: Grid,
        roster: Roster | None,
        nodes: int | None,
        timeout: float,
        home: Path,
        simulated: bool,
        quiet: bool,
    ) -> None:
        wanted = integer("nodes", nodes, 1) if nodes is not None else len(roster) if roster is not None else 1
        self._grid = grid
        self._timeout = timeout
        connected = _connected(grid, wanted, timeout, Progress(quiet))
        self._ids = {node_name(number): number for number in connected}
        if roster is None and len(self._ids) < wanted:
            raise SettingError(
                f"{wanted} nodes must be connected within {timeout:g} s, but got {len(self._ids)}; start more "
                "SuperNodes, ask for fewer nodes or raise the timeout"
            )
        super().__init__(sorted(self._ids), self._send, home.resolve(), roster, simulated)

    def _send(self, letters: Mapping[Id, bytes]) -> Mapping[Id, bytes | Dropped]:
        """One message per node; replies are matched by the id of the message they answer."""
        messages = {
            node: Message(_record_of(letter), self._ids[node], f"query.{_ACTION}", ttl=self._timeout)
            for node, letter in letters.items()
        }
        replies = list(self._grid.send_and_receive(messages.values(), timeout=self._timeout))
        asked = {message.metadata.message_id: node for node, message in messages.items()}
        received: dict[Id, bytes | Dropped] = dict.fromkeys(letters, Dropped(f"no reply within {self._timeout:g} s"))
        for reply in replies:
            node = asked.pop(reply.metadata.reply_to_message_id, None)
            if node is not None:
                received[node] = _read(reply)
        return received


def _connected(grid: Grid, wanted: int, timeout: float, progress: Progress) -> list[int]:
    """The ids of all nodes, once there are as many as wanted, or the time is up."""
    end, seen = time.monotonic() + timeout, -1
    while len(found := list(grid.get_node_ids())) < wanted and time.monotonic() < end:
        if len(found) != seen:
            progress.say(f"waiting for {wanted} nodes, {len(found)} connected; at most {timeout:g} s")
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


# ---- settings from Flower's run config ---------------------------------------------------------------

_RUN_SETTINGS: dict[str, tuple[str, ...]] = {
    "privacy": ("epsilon", "delta", "unit", "neighbours"),
    "seal": ("seal", "dropouts", "corrupt", "ring"),
    "": ("timeout", "nodes", "roster", "folder", "home"),
}


def _seal(seal: str = Masked.name, **fields: Any) -> Seal:
    return seal_from_json({"name": seal, **fields})


def settings(context: Context) -> dict[str, Any]:
    """What the run config says for `tune`: entries `hushtune-epsilon`, `-delta`, `-unit`, `-neighbours` (privacy),
    `-seal` ("masked", the default, or another one's name), `-dropouts`, `-corrupt`, `-ring` (of the seal), `-timeout`,
    `-nodes`, `-roster`, `-folder` and `-home`.

    Use: `tune(grid, candidates, method=Vote(), **settings(context))`. Empty texts count as not given, but for epsilon,
    which must be a number, or "none" for a run that opens exact values.

    Args:
        context: Flower's context, as `@app.main()` gets it.
    """
    known = tuple(name for names in _RUN_SETTINGS.values() for name in names)
    given = {name: value for name, value in _own(context.run_config, known).items() if value != ""}
    found = {name: given[name] for name in _RUN_SETTINGS[""] if name in given}
    if "epsilon" not in given:
        raise SettingError('the run config must set hushtune-epsilon: a number, or "none" to open exact values')
    makers: dict[str, Callable[..., Any]] = {"privacy": Privacy, "seal": _seal}
    if given["epsilon"] == "none":
        del makers["privacy"]
    for argument, make in makers.items():
        if values := {name: given[name] for name in _RUN_SETTINGS[argument] if name in given}:
            found[argument] = make(**values)
    return found
