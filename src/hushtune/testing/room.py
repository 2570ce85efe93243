"""One cell's runs, in a folder of its own, and what is checked of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from hushtune.client.query import Query
from hushtune.client.rows import WHOLE
from hushtune.client.simulation import Simulation
from hushtune.core.arrays import IntArray
from hushtune.core.errors import BudgetError, HushtuneError
from hushtune.core.jsonlines import JsonLines, read_line
from hushtune.core.observer import Silent
from hushtune.core.space import space_of
from hushtune.federation.local import LocalFederation
from hushtune.methods.registry import method_from_json
from hushtune.privacy.ledger import Ledger
from hushtune.privacy.noise.base import Noise
from hushtune.run.replay import Replay
from hushtune.run.result import Result
from hushtune.run.simulation import Shortcut
from hushtune.run.tuning import tune
from hushtune.seals.clear import Clear
from hushtune.testing import opened, records
from hushtune.testing.queries import check_query
from hushtune.testing.toys import toy_clients
from hushtune.testing.values import check_value, expect

_SEED = 7  # of the marked simulations
_FAILING = 1  # which client's data is missing, where one's is


class Room:
    """A made-up federation, and the runs that a cell makes with it.

    Args:
        place: an empty folder.
        settings: arguments of `tune`.
        clients: how many.
    """

    def __init__(self, place: Path, settings: dict[str, Any], clients: int) -> None:
        self.place, self._settings, self._clients = place, settings, clients
        self.result: Result
        self.folder = place / "first"
        self._private = settings["privacy"] is not None
        self._told = StringIO()  # what an observer was told in the first run

    def begin(self) -> None:
        """The first run: a real one."""
        self.result = self.tune("first", folder=self.folder, observer=JsonLines(self._told))

    def tune(self, home: str, failing: int | None = None, **changes: Any) -> Result:
        """One run in a home of that name."""
        settings = {**self._settings, "home": self.place / f"{home} home", "observer": Silent(), "jobs": 1, **changes}
        return tune(toy_clients(self._clients, self._settings["candidates"], failing), **settings)

    def left_behind(self) -> list[str]:
        """What a run that was refused has written: nothing, but for an empty home and its store of trials."""
        found = [path for path in self.place.rglob("*") if path.is_file() and not path.name.startswith("trials.db")]
        return [str(path.relative_to(self.place)) for path in [*found, *self.place.glob("first")]]

    def opened(self) -> tuple[str, ...]:
        """What the first run opened, in words, each once."""
        pairs = zip(self._replay.queries, self.result.opened, strict=True)
        return tuple(dict.fromkeys(opened.words(*pair) for pair in pairs))

    def check(self) -> None:
        """All that a working cell must pass."""
        self._check_result()
        self._check_method()
        records.check_saved(self.folder, self.result)
        records.check_tampering(self.folder, self.place / "tampered")
        opened.check_disclosures(self.result)
        self._check_repeats()
        if self._private:
            self._check_books()
            self._check_failure()
        else:
            opened.check_exact(self.result, self._replay, self._probed, self._summed)

    def _check_result(self) -> None:
        config = self.result.config
        expect(space_of(self._settings["candidates"]).has(config), f"{config} is not a config of the space")
        for log in self.place.glob("first home/clients/*/client.log"):  # else a default would stand in for every answer
            text = log.read_text(encoding="utf-8")
            expect("no answer to" not in text, f"a client could not answer: {text.strip().splitlines()[-1]}")

    @cached_property
    def _replay(self) -> Replay:
        """The run's decision once more, from its openings alone."""
        made = self.result
        replay = Replay(made.run, made.candidates, made.search, made.asked, made.opened)
        config = made.method.run(replay)
        expect(config == made.config, f"from the same openings the method decides {config} instead of {made.config}")
        return replay

    def _check_method(self) -> None:
        """A frozen dataclass that JSON does not change, and that opens what it announced: no more, and no less."""
        given = self._settings["method"]
        check_value(given)
        for method in (given, self.result.method):
            written = json.loads(json.dumps(method.to_json(), allow_nan=False))
            expect(method_from_json(written) == method, f"method '{method.name}' is another one once it was JSON")
        queries = self._replay.queries
        bounds = self.result.method.bounds(self.result.candidates)
        said, found = [type(bound).__name__ for bound in bounds], [type(query.bound).__name__ for query in queries]
        expect(said == found, f"`bounds` announces {said}, but the method opens {found}")
        for query in set(queries):
            check_query(query)

    def _check_repeats(self) -> None:
        """A marked simulation is the same twice, and charges nothing."""
        first, second = (self.tune(f"simulated {n}", simulation=Simulation(_SEED)) for n in (1, 2))
        opened.check_same(first, second)
        expect(first.statement.startswith("SIMULATION"), "a simulation's statement must begin with that word")
        charged = [str(path) for path in self.place.glob("simulated*/**/ledger*.db")]
        expect(not charged, f"a simulation must charge no ledger, but wrote {charged}")

    def _ledgers(self, home: str) -> list[Ledger]:
        """The coordinator's, then the clients'."""
        found = [
            sorted(self.place.glob(f"{home} home/{whose}")) for whose in ("coordinator/*.db", "clients/*/ledger.db")
        ]
        coordinators, clients = found
        expect(len(coordinators) == 1, f"the coordinator must have one ledger, but has {len(coordinators)}")
        expect(len(clients) == self._clients, f"{self._clients} clients must have ledgers, but {len(clients)} have")
        return [Ledger(path) for path in (*coordinators, *clients)]

    def _check_books(self) -> None:
        """What was spent is within epsilon and on record everywhere; then nothing more can be had."""
        stated, spent = self.result.privacy, self.result.spent
        assert stated is not None
        within = 0 < spent.epsilon <= stated.epsilon and spent.delta <= stated.delta
        expect(within, f"spent {spent}, which is not within ({stated.epsilon}, {stated.delta})")
        ledgers = self._ledgers("first")
        for ledger in ledgers:
            charged = [entry.charge.events for entry in ledger.entries()]
            expect(charged == [self.result.events], f"{ledger.path.parent.name}: the ledger must hold the run's events")
        before = [ledger.entries() for ledger in ledgers]
        try:
            self.tune("first", folder=self.place / "second")
        except BudgetError:
            expect(not (self.place / "second").exists(), "a run that was refused must write nothing")
            expect([ledger.entries() for ledger in ledgers] == before, "a run that was refused must charge nothing")
        except HushtuneError as error:
            raise AssertionError(
                f"a second run must be a BudgetError, but was {type(error).__name__}: {error}"
            ) from error
        else:
            raise AssertionError("a second run must be refused, because the first used up the ledgers' limits")

    def _check_failure(self) -> None:
        """A client whose objective fails, as depends on its data, looks like any other."""
        told = StringIO()
        failed = self.tune("failed", _FAILING, folder=self.place / "failed", observer=JsonLines(told))
        records.check_saved(self.place / "failed", failed)
        opened.check_no_trace(self.result, failed)
        for one, other in zip(self._ledgers("first"), self._ledgers("failed"), strict=True):
            charges = [[replace(entry.charge, run="") for entry in ledger.entries()] for ledger in (one, other)]
            expect(charges[0] == charges[1], f"{one.path.parent.name}: a failing client is charged like any other")
        tests = any(query.bound.tests > 1 for query in self._replay.queries)
        same = _events(told, tests) == _events(self._told, tests)
        expect(same, "an observer must be told the same whoever fails")

    def _probed(self, queries: Sequence[Query]) -> Result:
        """The same queries under seal 'clear', in a simulation."""
        probe = opened.probe_of(queries)
        return self.tune("probed", method=probe, seal=Clear(), simulation=Simulation(_SEED))

    def _summed(self, query: Query) -> IntArray:
        """What the clients of a simulation would send together."""
        made, clients = self.result, toy_clients(self._clients, self._settings["candidates"])
        wire = LocalFederation(clients, self.place / "summed home", seed=_SEED, jobs=1)
        noise = made.seal, Noise(0.0), 1
        shortcut = Shortcut(list(wire.parties.values()), WHOLE, made.candidates, made.search, *noise, _SEED)
        return np.concatenate(list(shortcut.sum(query).values()))


def _events(told: StringIO, tests: bool) -> list[str]:
    """What an observer was told, but for when, and for the chosen config, which follows from the noisy openings.

    How many tests are made follows from them too: where there are several, the same is told again for each.
    """
    left_out = {"config", "phase"} if tests else {"config"}
    lines = [read_line(line) for line in told.getvalue().splitlines()]
    events = [
        json.dumps([line.kind, {name: value for name, value in line.fields.items() if name not in left_out}])
        for line in lines
    ]
    return list(dict.fromkeys(events)) if tests else events
