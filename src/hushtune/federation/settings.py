"""Settings that come from an engine's own configuration: a client operator's, and those of a run.

Engines hand over flat mappings of names to plain values; hushtune's entries begin with `hushtune-`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hushtune.client.simulation import Simulation
from hushtune.core.checks import integer, kind
from hushtune.core.errors import SettingError
from hushtune.core.identity import Identity
from hushtune.core.processes.pool import default_jobs
from hushtune.core.roster import Id, Roster, check_name
from hushtune.federation.local import default_home
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.policy import Policy
from hushtune.seals.base import Seal
from hushtune.seals.registry import default_seal, seal_from_json


class NodeSettings:
    """What a client's operator set, and otherwise the app.

    Args:
        config: the operator's: entries `hushtune-home`, `-name`, `-policy`, `-roster`, `-identity`, `-jobs` and
            `-simulation`, the seed of a marked simulation.
        policy: the app's, or its file.
        roster: the app's, or its file.
        identity: the app's, or its file.
        home: the app's.
        jobs: the app's.
        simulation: the mark of the app, or of the engine.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        policy: Policy | str | Path | None,
        roster: Roster | str | Path | None,
        identity: Identity | str | Path | None,
        home: str | Path | None,
        jobs: int | None,
        simulation: Simulation | None = None,
    ) -> None:
        found = own_settings(config, ("home", "name", "policy", "roster", "identity", "jobs", "simulation"))
        for name in ("home", "policy", "roster", "identity"):
            kind(f"hushtune-{name}", found.get(name), str)
        self.home = Path(found.get("home") or home or default_home()).expanduser()
        self.policy = loaded(Policy, found.get("policy", policy))
        self.roster = loaded(Roster, found.get("roster", roster))
        self.identity = loaded(Identity, found.get("identity", identity))
        wanted = found.get("jobs", jobs)
        self.jobs = default_jobs() if wanted is None else integer("hushtune-jobs", wanted, 1, 1024)
        seed = found.get("simulation", simulation.seed if simulation is not None else None)
        self.seed = None if seed is None else integer("hushtune-simulation", seed, 0)
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


def loaded(wanted: type[_Kind], given: _Kind | str | Path | None) -> _Kind | None:
    """What was given, or what the file that was given holds."""
    return wanted.load(given) if isinstance(given, str | Path) else given


def own_settings(config: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """The entries of an engine's config that are for hushtune, without their prefix; unknown ones are refused."""
    found = {key.removeprefix("hushtune-"): value for key, value in config.items() if key.startswith("hushtune-")}
    if unknown := sorted(set(found) - set(known)):
        names = [f"hushtune-{name}" for name in unknown]
        raise SettingError(f"hushtune knows the settings {[f'hushtune-{name}' for name in known]}, but got {names}")
    return found


# ---- a run -------------------------------------------------------------------------------------------

_PRIVACY = ("epsilon", "delta", "unit", "neighbours")
_SEAL = ("seal", "dropouts", "corrupt", "ring")
_RUN = ("folder",)
_FEDERATION = ("timeout", "nodes", "roster", "home")


@dataclass(frozen=True)
class RunSettings:
    """What an engine's run config says.

    Args:
        tune: keyword arguments for `hushtune.tune`: privacy, seal, folder.
        federation: keyword arguments for the engine's federation: timeout, nodes, roster, home.
    """

    tune: dict[str, Any]
    federation: dict[str, Any]


def run_settings(config: Mapping[str, Any]) -> RunSettings:
    """Reads the entries `hushtune-epsilon`, `-delta`, `-unit`, `-neighbours` (privacy), `-seal` (a seal's name),
    `-dropouts`, `-corrupt`, `-ring` (of the seal), `-folder`, `-timeout`, `-nodes`, `-roster` and `-home`.

    Empty texts count as not given, but for epsilon, which must be a number, or "none" for a run that opens exact
    values.

    Args:
        config: the run config.
    """
    known = (*_PRIVACY, *_SEAL, *_RUN, *_FEDERATION)
    given = {name: value for name, value in own_settings(config, known).items() if value != ""}
    if "epsilon" not in given:
        raise SettingError('the run config must set hushtune-epsilon: a number, or "none" to open exact values')
    makers: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {"seal": (_SEAL, _seal)}
    if given["epsilon"] != "none":
        makers["privacy"] = (_PRIVACY, Privacy)
    tune = {name: given[name] for name in _RUN if name in given}
    for argument, (names, make) in makers.items():
        if values := {name: given[name] for name in names if name in given}:
            tune[argument] = make(**values)
    return RunSettings(tune, {name: given[name] for name in _FEDERATION if name in given})


def _seal(seal: str = "", **fields: Any) -> Seal:
    return seal_from_json({"name": seal or default_seal().name, **fields})
