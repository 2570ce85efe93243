"""study.toml: a whole run in one file. Every key is checked; an unknown one is an error, not a comment."""

from __future__ import annotations

import importlib
import inspect
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from hushtune.client.client import Client
from hushtune.client.objectives.sklearn import SklearnObjective
from hushtune.client.search.adaptive import search_from_json
from hushtune.client.search.base import Search
from hushtune.client.simulation import Simulation
from hushtune.core.checks import integer, kind
from hushtune.core.errors import SettingError, described
from hushtune.core.space import MOST, Candidates, Domain, Space
from hushtune.core.tables import space_from_table
from hushtune.core.words import counted
from hushtune.data import load
from hushtune.data.sources import SOURCES
from hushtune.data.splits import shares
from hushtune.methods.base import Method
from hushtune.methods.prior import Prior, check_source
from hushtune.methods.registry import method_given
from hushtune.methods.study import Study
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.ledger import Ledger
from hushtune.review.comparison.table import EXACT
from hushtune.seals.base import Seal
from hushtune.seals.registry import seal_from_json

_Made = TypeVar("_Made")
_TABLES = {
    "data": {"name", "clients", "split", "test", "rows", "seed"},
    "clients": {"factory"},
    "space": None,  # the user's own names
    "candidates": {"grid", "sample", "seed", "list"},
    "objective": {"estimator", "parameters", "metric", "validation", "cv"},
    "method": None,  # the method checks its own fields
    "privacy": {"epsilon", "delta", "unit", "neighbours"},
    "seal": None,
    "search": {"seed", "trials", "sampler"},
    "ledger": {"path"},
    "simulation": {"seed", "reference"},
    "compare": {"methods", "seals", "epsilons", "draws"},
}
_DRAWS = 20
_COMPARES = "; it has a table [compare]: `hushtune compare` takes it"


@dataclass
class StudyFile:
    """What a study file says: the study, and who takes part in it."""

    study: Study
    clients: list[Client]
    ledger: Ledger | None
    simulation: Simulation | None


@dataclass
class ComparisonFile:
    """What a study file with a table [compare] says, ready for `compare`."""

    clients: list[Client]
    candidates: Domain
    methods: list[Method]
    seals: list[Seal]
    privacies: list[Privacy | None]
    search: Search | None
    simulation: Simulation


def read(path: str | Path) -> StudyFile:
    """Reads and checks a study file. Raises SettingError with the table, the constraint and the value got."""
    raw, folder = _parsed(Path(path)), Path(path).parent
    if "method" not in raw:
        raise SettingError(f"study needs a table [method], but got none{_COMPARES if 'compare' in raw else ''}")
    candidates, search = _domain(raw), _search(raw)
    privacy = _in("privacy", lambda: _privacy(raw)) if "privacy" in raw else None
    method = _in("method", lambda: _method(raw["method"], folder))
    seal = _in("seal", lambda: seal_from_json(_with_name(raw["seal"]))) if "seal" in raw else None
    clients, reference = _clients(raw, folder)
    study = Study(candidates, method, privacy, seal, search)
    _in("method", lambda: study.settled(len(clients)))
    simulation = _in("simulation", lambda: _simulation(raw, reference)) if "simulation" in raw else None
    ledger = None
    if "ledger" in raw:
        ledger = _in("ledger", lambda: Ledger(folder / _text("path", _need(raw, "ledger", "path"))))
    return StudyFile(study, clients, ledger, simulation)


def read_comparison(path: str | Path) -> ComparisonFile:
    """Reads and checks a study file with a table [compare]; what that leaves out is the study's own."""
    raw, folder = _parsed(Path(path)), Path(path).parent
    if "compare" not in raw:
        raise SettingError("study needs a table [compare] with methods, seals or epsilons, but got none")
    if "ledger" in raw:
        raise SettingError("a comparison is a simulation and charges no ledger, but got a table [ledger]")
    table = raw["compare"]
    methods = _in(
        "compare", lambda: [_method(entry, folder) for entry in _several(table, "methods", raw.get("method"))]
    )
    seals = _in("compare", lambda: [_seal(entry) for entry in _several(table, "seals", raw.get("seal", "masked"))])
    own = raw.get("privacy", {})
    epsilons = _in("compare", lambda: _several(table, "epsilons", own.get("epsilon", EXACT)))
    privacies = _in("compare", lambda: [_guarantee(epsilon, own) for epsilon in epsilons])
    clients, reference = _clients(raw, folder)
    simulation = _in("compare", lambda: _simulation({"simulation": {}, **raw}, reference, table.get("draws", _DRAWS)))
    return ComparisonFile(clients, _domain(raw), methods, seals, privacies, _search(raw), simulation)


@dataclass
class PublicStudy:
    """What a study's candidates are scored on for a prior.

    Args:
        client: holds the public data and the objective.
        candidates: the study's.
        search: with the seed that configs are scored with.
        source: what the prior comes from, in words.
    """

    client: Client
    candidates: Candidates
    search: Search
    source: str


def read_public(path: str | Path, data: str | None, client: str | None, rows: int | None, seed: int) -> PublicStudy:
    """Reads a study file for its candidates and its objective, and the public data.

    Args:
        path: the study file.
        data: an example data set; or None, and
        client: a function of the user's own, which gives a client.
        rows: of an example data set, at most.
        seed: with which an example data set is split.
    """
    if (data is None) == (client is None):
        raise SettingError("a prior needs either --data or --client, but got both or neither")
    if rows is not None and data is None:
        raise SettingError(f"--rows is for --data, but got --rows {rows} with --client")
    raw, folder = _parsed(Path(path)), Path(path).parent
    candidates, search = _domain(raw), _search(raw) or Search()
    if not isinstance(candidates, Candidates):
        raise SettingError("a prior needs a study with a table [candidates]: they are what is scored")
    own, source = _public_named(raw, data, rows, seed) if data is not None else _public_own(client, folder)
    counted_in = f"{len(candidates)} candidates scored on PUBLIC data: {source}"
    return PublicStudy(own, candidates, Search(search.seed), counted_in)


def _public_named(raw: dict[str, Any], name: str, rows: int | None, seed: int) -> tuple[Client, str]:
    if "objective" not in raw:
        raise SettingError("--data needs a study with a table [objective]; with [clients], give --client instead")
    if raw.get("data", {}).get("name") == name:
        raise SettingError(f"--data must be public data, but '{name}' is what the study's clients hold")
    objective = _in("objective", lambda: _objective(raw))
    held = load(_source(name), rows=rows, seed=seed)
    return Client(held, objective), f"{name}, {counted(len(held.train), 'row')}"


def _public_own(text: Any, folder: Path) -> tuple[Client, str]:
    sys.path.insert(0, str(folder.resolve()))
    found = _made("--client", text)
    if not isinstance(found, Client):
        raise SettingError(f"--client must give a hushtune.Client, but gave a {type(found).__name__}")
    if any(own is not None for own in (found.policy, found.ledger, found.identity)):
        raise SettingError(
            "--client must give a client with public data, but this one has a policy, a ledger or an identity, as "
            "clients have whose data are protected: nothing would be charged for what a prior shows of them"
        )
    return found, check_source(str(text))


def _source(name: Any) -> Any:
    if name not in list(SOURCES):
        raise SettingError(f"name must be one of {sorted(SOURCES)}, but got {name!r}")
    return name


def _several(table: dict[str, Any], key: str, otherwise: Any) -> list[Any]:
    """What [compare] lists, or the study's own, once."""
    found = table.get(key, [otherwise] if otherwise is not None else [])
    if not isinstance(found, list) or not found:
        raise SettingError(f"{key} must be a list with at least one entry, but got {found!r}")
    return found


def _method(entry: Any, folder: Path) -> Method:
    if isinstance(entry, dict) and "prior" in entry:
        entry = {**entry, "prior": _prior(entry["prior"], folder)}
    return method_given(_with_name(entry))


def _prior(said: Any, folder: Path) -> Prior:
    """A file's name, or a table that says what is believed."""
    table = (
        {"file": said} if isinstance(said, str) else dict(_inner("prior", said, "{ near = { C = 10.0 }, voters = 30 }"))
    )
    ways = [way for way in ("file", "near", "scores") if way in table]
    if len(ways) != 1:
        raise SettingError(f"prior needs exactly one of file, near, scores, but got {ways}")
    given = table.pop(ways[0])
    known = {"file": {"voters"}, "near": {"voters", "within", "source"}, "scores": {"voters", "source"}}[ways[0]]
    for key in table:
        if key not in known:
            raise SettingError(f"prior has an unknown key '{key}'; beside {ways[0]} it has {sorted(known)}")
    if ways == ["file"]:
        return Prior.load(folder / _text("file", given), **table)
    if ways == ["near"]:
        return Prior.near(_inner("near", given, "{ C = 10.0 }"), **table)
    kind("scores", given, list, optional=False)
    return Prior(given, **table)


def _seal(entry: Any) -> Seal:
    if not isinstance(entry, str | dict):
        raise SettingError(f"a seal must be its name, or a table such as {{ name = 'masked' }}, but got {entry!r}")
    return seal_from_json({"name": entry} if isinstance(entry, str) else _with_name(entry))


def _privacy(raw: dict[str, Any]) -> Privacy:
    _need(raw, "privacy", "epsilon")
    return Privacy(**raw["privacy"])


def _guarantee(epsilon: Any, own: dict[str, Any]) -> Privacy | None:
    return None if epsilon == EXACT else Privacy(**{**own, "epsilon": epsilon})


def _parsed(path: Path) -> dict[str, Any]:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingError(f"study file {path} does not exist") from None
    except UnicodeDecodeError:
        raise SettingError(f"{path} must be TOML, but it is no text: give the study file") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path} must be TOML, but got: {error}") from None
    except OSError as error:
        raise SettingError(f"study file {path} cannot be read: {error.strerror}; give a study file (TOML)") from None
    _check_keys(raw)
    return raw


def _domain(raw: dict[str, Any]) -> Domain:
    space = _in("space", lambda: space_from_table(raw["space"]))
    return _in("candidates", lambda: _candidates(raw, space)) if "candidates" in raw else space


def _search(raw: dict[str, Any]) -> Search | None:
    return _in("search", lambda: search_from_json(raw["search"])) if "search" in raw else None


def _simulation(raw: dict[str, Any], reference: Client | None, draws: int = Simulation.draws) -> Simulation:
    table = raw["simulation"]
    if "reference" in table:
        reference = _made("reference", table["reference"])
    return Simulation(table.get("seed", 0), reference, draws)


def _check_keys(raw: dict[str, Any]) -> None:
    for table, values in raw.items():
        if table not in _TABLES:
            raise SettingError(f"study has an unknown table [{table}]; tables are {sorted(_TABLES)}")
        if not isinstance(values, dict):
            raise SettingError(f"[{table}] must be a table, but got {values!r}")
        known = _TABLES[table]
        for key in values:
            if known is not None and key not in known:
                raise SettingError(f"[{table}] has an unknown key '{key}'; keys are {sorted(known)}")
    if "space" not in raw:
        raise SettingError("study needs a table [space], but got none")
    if ("data" in raw) == ("clients" in raw):
        raise SettingError(
            "study needs either [data] (an example data set) or [clients] (your own), but got both or neither"
        )
    if "data" in raw and "objective" not in raw:
        raise SettingError("study with [data] needs a table [objective], but got none")


def _in(table: str, make: Callable[[], _Made]) -> _Made:
    """Names the table in whatever is wrong with its values."""
    try:
        return make()
    except SettingError as error:
        raise SettingError(f"[{table}] {error}") from None
    except (TypeError, ValueError) as error:  # what a class of the user's own raises, such as an estimator
        raise SettingError(f"[{table}] has a value of the wrong kind: {error}") from None


def _with_name(table: Any) -> Any:
    """A table that says what it is the settings of; what is no table is refused by whom it is given to."""
    if isinstance(table, dict) and "name" not in table:
        raise SettingError(f"needs the key 'name', but got {sorted(table)}")
    return table


def _need(raw: dict[str, Any], table: str, key: str) -> Any:
    if key not in raw[table]:
        raise SettingError(f"needs the key '{key}', but got {sorted(raw[table])}")
    return raw[table][key]


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise SettingError(f"{key} must be a text, but got {value!r}")
    return value


def _inner(key: str, value: Any, such: str) -> dict[str, Any]:
    """A table inside a table."""
    if not isinstance(value, dict):
        raise SettingError(f"{key} must be a table, such as {such}, but got {value!r}")
    return value


def _candidates(raw: dict[str, Any], space: Space) -> Candidates:
    table = raw["candidates"]
    ways = [way for way in ("grid", "sample", "list") if way in table]
    if len(ways) != 1:
        raise SettingError(f"needs exactly one of grid, sample, list, but got {ways}")
    if ways == ["grid"]:
        return space.grid(**_inner("grid", table["grid"], "{ C = 5 }"))
    if ways == ["sample"]:
        return space.sample(integer("sample", table["sample"], 1, MOST), seed=table.get("seed", 0))
    kind("list", table["list"], list, optional=False)
    return space.candidates(table["list"])


def _imported(key: str, value: Any, separator: str) -> Any:
    text = _text(key, value)
    module, _, name = text.rpartition(separator)
    if not module or not name:
        raise SettingError(f"{key} must be a text such as 'module{separator}name', but got {text!r}")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever the user's own module raises
        raise SettingError(f"'{text}' cannot be imported: {described(error)}") from None


def _made(key: str, text: Any) -> Any:
    """What a function of the user's own gives."""
    function = _imported(key, text, ":")
    try:
        return function()
    except Exception as error:
        raise SettingError(f"{text} failed: {described(error)}") from None


def _clients(raw: dict[str, Any], folder: Path) -> tuple[list[Client], Client | None]:
    if "clients" in raw:
        sys.path.insert(0, str(folder.resolve()))
        return _in("clients", lambda: _own_clients(raw)), None
    objective = _in("objective", lambda: _objective(raw))
    return _in("data", lambda: _example_clients(raw, objective))


def _own_clients(raw: dict[str, Any]) -> list[Client]:
    found = _made("factory", _need(raw, "clients", "factory"))
    if not isinstance(found, list | tuple) or not all(isinstance(client, Client) for client in found):
        raise SettingError(f"factory must return a list of hushtune.Client, but got a {type(found).__name__}")
    return list(found)


def _objective(raw: dict[str, Any]) -> SklearnObjective:
    fields = dict(raw["objective"])
    name = _need(raw, "objective", "estimator")
    made = _estimator(name, _imported("estimator", name, "."))
    parameters = _inner("parameters", fields.pop("parameters", {}), "{ C = 1.0 }")
    known = inspect.signature(made).parameters
    for key in parameters:
        if key not in known and all(one.kind is not one.VAR_KEYWORD for one in known.values()):
            raise SettingError(f"parameters has an unknown key '{key}'; {made.__name__} has {sorted(known)}")
    return SklearnObjective(**{**fields, "estimator": made(**parameters)})


def _estimator(name: Any, found: Any) -> type[Any]:
    """A class of estimators. Anything else is refused before it is called with what a study says."""
    if isinstance(found, type) and all(hasattr(found, needed) for needed in ("fit", "get_params", "set_params")):
        return found
    what = "a class of another kind" if isinstance(found, type) else f"a {type(found).__name__.replace('_', ' ')}"
    raise SettingError(f"estimator must be a scikit-learn class, such as 'sklearn.svm.SVC', but '{name}' is {what}")


def _example_clients(raw: dict[str, Any], objective: SklearnObjective) -> tuple[list[Client], Client]:
    table = raw["data"]
    seed = table.get("seed", 0)
    data = load(_source(_need(raw, "data", "name")), test=table.get("test"), rows=table.get("rows"), seed=seed)
    parts = shares(table.get("split", "iid"), data.train, _need(raw, "data", "clients"), seed)
    return [Client(rows, objective) for rows in parts], Client(data, objective)
