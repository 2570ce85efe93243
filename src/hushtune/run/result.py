"""What a run gives back: the chosen config, everything opened, who learned what, what it cost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hushtune.client.pairs import Pairs, read
from hushtune.client.query import query_class
from hushtune.client.search.adaptive import search_from_json
from hushtune.client.search.base import Search
from hushtune.core.arrays import IntArray
from hushtune.core.checks import kind
from hushtune.core.errors import SettingError
from hushtune.core.files import replace
from hushtune.core.identity import Identity
from hushtune.core.roster import Id, NodeEntry
from hushtune.core.space import Candidates, Config, config_key, knob_has
from hushtune.methods.base import Method, Note
from hushtune.methods.registry import method_from_json
from hushtune.privacy.accounting import Budget, Rule, rule_from_json, rule_to_json
from hushtune.privacy.events.registry import event_from_json, event_to_json
from hushtune.privacy.events.sums import Event
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.run import signature
from hushtune.run.disclosures import Disclosure
from hushtune.seals.base import Seal
from hushtune.seals.oracle import ANSWERS
from hushtune.seals.registry import seal_from_json

if TYPE_CHECKING:
    import optuna

SCHEMA = 2
_ANEW = "restore it from a backup, or run the study again"


@dataclass(frozen=True)
class Opened:
    """What one step opened.

    Args:
        query: its name.
        blocks: the sum, integers per block.
        noise_variance: of each entry.
        answered: how many clients' answers are in it.
        own: instead of a sum, every client's own answer, if that was asked for.
        form: which form of the sum was opened, if it was computed under encryption and nothing else was opened.
        smudging: bits (lambda) by which every party's noise hides the error of what was decrypted.
    """

    query: str
    blocks: dict[str, list[Any]]
    noise_variance: float
    answered: int
    own: dict[Id, dict[str, list[int]]] | None = None
    form: dict[str, Any] | None = None
    smudging: float | None = None

    def arrays(self) -> dict[Id, dict[str, IntArray]]:
        """Every client's own answer."""
        each = (self.own or {}).items()
        return {client: {name: np.array(v, dtype=np.int64) for name, v in blocks.items()} for client, blocks in each}


@dataclass(frozen=True)
class LedgerNote:
    """The coordinator's ledger before and after the run.

    Args:
        id: of this ledger, by which `verify` finds it.
        new: whether the run made it.
        rule: "sums" or "renyi".
        before: what had been spent.
        runs: how many runs it has seen.
        exact: how many of them had no epsilon.
        limit: for everything ever charged; None if no run with an epsilon has set one.
        spent: what is spent now, this run included.
        left: the largest (epsilon, delta) that one more run can have; None without a limit.
        wanted: what was asked for, if the ledger had less left and the run was shortened to that.
    """

    id: str
    new: bool
    rule: str
    before: Budget
    runs: int
    exact: int
    limit: Budget | None
    spent: Budget
    left: Budget | None
    wanted: Budget | None


@dataclass
class Result:
    """Everything a run says. `config` is what to train with; `statement` says what the run revealed.

    Whoever may see what was opened may read all of it, but for the reference figures of a marked simulation.

    Args:
        config: what was chosen: one value per knob.
        method: with all its settings filled in.
        seal: how single contributions stayed hidden.
        privacy: the guarantee asked for; None: exact values were opened.
        events: those of everything the run could open, fixed before it began; every epsilon is computed from these.
        spent: (epsilon, delta) of the events, computed under `rule`; zeros without `privacy`.
        rule: how epsilon is computed from events: the ledger's rule.
        noise: its scale is the standard deviation that the fewest honest clients carry, in steps of the integer grid.
        honest: how many those are.
        disclosures: who saw what, under which mechanism, at what cost.
        asked: how many clients were asked.
        pinned: whether their keys were pinned.
        nodes: those who computed for the clients, in order; empty under seals that need none.
        dropped: clients that are not in a sum, and why.
        late: clients that are in a sum, but did not help to open it, or sent what is wrong, and why.
        opened: what each step opened, in order.
        candidates: the public list.
        seconds: by phase. Empty in a real run with an epsilon: how long clients take depends on their data.
        run: the run's id.
        ledger: the coordinator's ledger before and after; None for a simulation.
        simulation: seed and reference figures of a marked simulation; None for a real run.
        hushtune: the version that made it.
        index: the chosen config's place among the candidates; None if it is none of them.
        search: how clients filled their trials.
        left_out: clients whose own answers were opened but do not count, and why.
        notes: what the method computed from opened values.
        traffic: trips, and messages and bytes of an average client.
        stated: the statement as it was saved, if the result was loaded.
    """

    config: Config
    method: Method
    search: Search
    seal: Seal
    privacy: Privacy | None
    events: tuple[Event, ...]
    spent: Budget
    rule: Rule
    noise: Noise
    honest: int
    disclosures: list[Disclosure]
    asked: int
    pinned: bool
    dropped: dict[Id, str]  # not in the sum, and why
    late: dict[Id, str]  # in the sum, but of no help in opening it, and why
    opened: list[Opened]
    candidates: Candidates
    seconds: dict[str, float]
    run: str
    ledger: LedgerNote | None
    simulation: dict[str, Any] | None
    hushtune: str
    index: int | None  # the chosen config's place among the candidates; None if a client found it
    left_out: dict[Id, str] = field(default_factory=dict)  # answered in the clear, but do not count, and why
    notes: dict[str, Note] = field(default_factory=dict)  # what the method computed from opened values
    traffic: dict[str, float] | None = None  # trips, and messages and bytes of an average client
    stated: str | None = field(default=None, repr=False)  # the statement as it was saved, once loaded
    nodes: tuple[NodeEntry, ...] = ()

    @property
    def answered(self) -> int:
        """The fewest answers any opened sum had."""
        return min((opened.answered for opened in self.opened), default=0)

    @property
    def private(self) -> bool:
        """Whether the run has an epsilon."""
        return self.privacy is not None

    @property
    def statement(self) -> str:
        """In plain words: who learned what, at which (epsilon, delta), and what is not covered."""
        from hushtune.run.statement import statement

        return statement(self)

    def to_json(self) -> dict[str, Any]:
        """The content of result.json. Another release of hushtune may write another schema, and refuses this one."""
        return {
            "schema": SCHEMA,
            "hushtune": self.hushtune,
            "run": self.run,
            "config": self.config,
            "index": self.index,
            "method": self.method.to_json(),
            "search": self.search.to_json(),
            "seal": self.seal.to_json(),
            "privacy": self.privacy.to_json() if self.privacy else None,
            "spent": asdict(self.spent) if self.privacy else None,
            "rule": rule_to_json(self.rule),
            "noise": {"scale": self.noise.scale, "honest": self.honest},
            "events": [event_to_json(event) for event in self.events],
            "disclosures": [asdict(disclosure) for disclosure in self.disclosures],
            "clients": {
                "asked": self.asked,
                "pinned": self.pinned,
                "nodes": [node.to_json() for node in self.nodes],
                "answered": self.answered,
                "dropped": [{"client": id_, "reason": why} for id_, why in self.dropped.items()],
                "late": [{"client": id_, "reason": why} for id_, why in self.late.items()],
                "left_out": [{"client": id_, "reason": why} for id_, why in self.left_out.items()],
            },
            "notes": self.notes,
            "opened": [asdict(opened) for opened in self.opened],
            "candidates": self.candidates.to_json(),
            "outside": self.candidates.outside,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "traffic": self.traffic,
            "ledger": asdict(self.ledger) if self.ledger else None,
            "simulation": self.simulation,
            "statement": self.statement,
        }

    def save(self, folder: str | os.PathLike[str], identity: Identity | None = None) -> Path:
        """Writes result.json into the folder, which must not hold another run's result.

        A signature is written first, so that a result that is there is signed. If that fails, the result is written
        all the same, and the error raised then; saving it again with an identity signs it.

        Args:
            folder: made if it is not there.
            identity: signs the bytes of result.json, in result.sig beside it. None: a signature of other bytes that
                is there is removed.
        """
        kind("identity", identity, Identity)
        path = Path(folder) / "result.json"
        if path.exists() and Result.load(folder).run != self.run:
            raise SettingError(f"{path} holds another run's result; save into a new folder")
        content = (json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n").encode()
        try:
            signature.put(path.parent, content, identity)
        except OSError as error:
            raise SettingError(
                f"{path} is there, but without a signature: {path.with_name(signature.FILE)} cannot be written: "
                f"{error.strerror}; sign it with Result.load(folder).save(folder, identity)"
            ) from None
        finally:
            replace(path, content)
        return path

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Result:
        """The result saved in a folder.

        Args:
            folder: one that `hushtune run` wrote, or that was given to `tune` as `folder` or to `Result.save`.
        """
        kind("folder", folder, str, os.PathLike, optional=False)
        path = Path(folder) / "result.json"
        if Path(folder).is_file():
            raise SettingError(f"{folder} must be a folder, but got a file: give the folder that `hushtune run` wrote")
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SettingError(f"{path} does not exist; give a folder that `hushtune run` wrote") from None
        except OSError as error:
            raise SettingError(
                f"{path} cannot be read: {error.strerror}; give a folder that `hushtune run` wrote"
            ) from None
        except (ValueError, RecursionError):
            raise SettingError(f"{path} must be a JSON file, but it is damaged or of another kind; {_ANEW}") from None
        if not isinstance(raw, dict) or "schema" not in raw:
            raise SettingError(f"{path} must be what `hushtune run` wrote, but it has no schema; {_ANEW}")
        if raw["schema"] != SCHEMA:
            raise SettingError(
                f"{path} must have schema {SCHEMA}, but got {raw['schema']!r}: read it with the release of hushtune "
                "that wrote it"
            )
        try:
            return cls._from_json(raw)
        except KeyError as error:
            raise SettingError(f"{path} is damaged: the field {error} is missing; {_ANEW}") from None
        except (TypeError, AttributeError, ValueError) as error:
            raise SettingError(f"{path} is damaged: it has a missing or wrong field: {error}; {_ANEW}") from None

    @classmethod
    def _from_json(cls, raw: dict[str, Any]) -> Result:
        note = raw["ledger"]
        if note is not None:
            names = ("before", "limit", "spent", "left", "wanted")
            budgets = {name: Budget(**note[name]) if note[name] is not None else None for name in names}
            note = LedgerNote(**{**note, **budgets})
        seal = seal_from_json(raw["seal"])
        return cls(
            config=raw["config"],
            method=method_from_json(raw["method"]),
            search=search_from_json(raw["search"]),
            seal=seal,
            privacy=Privacy(**raw["privacy"]) if raw["privacy"] else None,
            events=tuple(event_from_json(event) for event in raw["events"]),
            spent=Budget(**raw["spent"]) if raw["spent"] else Budget(0.0, 0.0),
            rule=rule_from_json(raw["rule"]),
            noise=seal.noise(raw["noise"]["scale"]),
            honest=raw["noise"]["honest"],
            disclosures=[Disclosure(**{**d, "shape": tuple(d["shape"])}) for d in raw["disclosures"]],
            asked=raw["clients"]["asked"],
            pinned=raw["clients"]["pinned"],
            nodes=tuple(NodeEntry.from_json(node) for node in raw["clients"]["nodes"]),
            dropped={entry["client"]: entry["reason"] for entry in raw["clients"]["dropped"]},
            late={entry["client"]: entry["reason"] for entry in raw["clients"]["late"]},
            left_out={entry["client"]: entry["reason"] for entry in raw["clients"]["left_out"]},
            notes=raw["notes"],
            opened=[Opened(**opened) for opened in raw["opened"]],
            candidates=Candidates.from_json(raw["candidates"]),
            seconds=raw["seconds"],
            traffic=raw["traffic"],
            run=raw["run"],
            ledger=note,
            simulation=raw["simulation"],
            hushtune=raw["hushtune"],
            index=raw["index"],
            stated=raw["statement"],
        )

    def to_optuna(self) -> optuna.Study:
        """An in-memory Optuna study: one finished trial per candidate, its value what the run opened for it; or one per
        pair that the run opened, its value the loss, with the client's name as the user attribute "client".

        Everything in it was opened already, so it reveals nothing new. A trial's user attribute "config" holds the
        whole candidate; values outside the space, which Optuna does not take as parameters, are there only.
        """
        import optuna

        gathered = self.opened[-1].own is not None
        study = optuna.create_study(
            direction="minimize" if gathered else "maximize", study_name=f"hushtune-{self.run[:8]}"
        )
        rows = self._pairs() if gathered else self._sums()
        for config, value, more in rows:
            inside = {name: knob for name, knob in self.candidates.space.knobs.items() if knob_has(knob, config[name])}
            trial = optuna.trial.create_trial(
                params={name: config[name] for name in inside},
                distributions=inside,
                value=value,
                user_attrs={"config": config, **more},
            )
            study.add_trial(trial)
        return study

    def _sums(self) -> Iterator[tuple[Config, float, dict[str, Any]]]:
        found = self.per_candidate()
        if found is None:
            raise SettingError("a study needs one opened value per candidate, or every client's pairs; there are none")
        _, values = found
        for at, (config, value) in enumerate(zip(self.candidates, values, strict=True)):
            yield config, float(value), {"chosen": at == self.index}

    def per_candidate(self) -> tuple[str, list[int]] | None:
        """The name and the values of the last opened block that has one entry per candidate."""
        for opened in reversed(self.opened):
            for name, values in opened.blocks.items():
                told = name != ANSWERS and query_class(opened.query).per_candidate
                if told and len(values) == len(self.candidates):
                    return name, values
        return None

    def _pairs(self) -> Iterator[tuple[Config, float, dict[str, Any]]]:
        for client, pairs in self.pairs().items():
            for config, loss in zip(self.candidates.space.decode(pairs.points), pairs.losses, strict=True):
                chosen = config_key(config) == config_key(self.config)
                yield config, float(loss), {"client": client, "chosen": chosen}

    def pairs(self) -> dict[Id, Pairs]:
        """Every client's own (config, loss) pairs, if they were opened."""
        if not self.opened or self.opened[-1].own is None:
            return {}
        return {client: read(blocks, self.method.losses)[0] for client, blocks in self.opened[-1].arrays().items()}
