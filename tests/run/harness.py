"""A run's terms, and a result, without clients: for tests of what is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import hushtune as ht
from hushtune.client.request import Request
from hushtune.core.roster import Roster
from hushtune.federation.base import Federation, Traffic
from hushtune.methods.study import Study
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.accounting import Budget
from hushtune.run.disclosures import CHOSEN, of_sum
from hushtune.run.result import LedgerNote, Opened, Result
from hushtune.run.terms import Terms, calibrated
from hushtune.seals.ends import Trip
from hushtune.seals.plain import protect

CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=4)
QUERY = TopVotes(1, CANDIDATES, 0)
PRIVACY = ht.Privacy(2.0)
RUN = "0" * 32


def terms(clients: int = 10, method: Any = None, ledger: ht.Ledger | None = None, **study: Any) -> Terms:
    privacy = study.pop("privacy", PRIVACY)
    settled = Study(CANDIDATES, method or ht.Vote(1), privacy, **study).settled(clients)
    return calibrated(settled, privacy, ledger)


def note(**changes: Any) -> LedgerNote:
    fields: dict[str, Any] = {
        "id": "1" * 32,
        "new": False,
        "rule": "sums",
        "before": Budget(1.0, 1e-5),
        "runs": 2,
        "exact": 0,
        "limit": Budget(9.0, 1e-4),
        "spent": Budget(3.0, 2e-5),
        "left": Budget(6.0, 8e-5),
        "wanted": None,
    }
    return LedgerNote(**{**fields, **changes})


def result(agreed: Terms | None = None, **changes: Any) -> Result:
    """Of a run under these terms that opened one sum, in which all clients are."""
    agreed = agreed or terms()
    variance = agreed.noise.opened_variance(agreed.honest, agreed.clients)
    opened = Opened(QUERY.name, {"votes": [7, 2, 0, 1]}, variance, agreed.clients)
    fields: dict[str, Any] = {
        "config": CANDIDATES[0],
        "index": 0,
        "method": agreed.study.method,
        "search": agreed.study.facts.search,
        "seal": agreed.seal,
        "privacy": agreed.privacy,
        "events": agreed.events,
        "spent": agreed.spent,
        "rule": agreed.rule,
        "noise": agreed.noise,
        "honest": agreed.honest,
        "disclosures": [
            *of_sum(QUERY, opened, agreed.seal, agreed.clients, agreed.noise, agreed.privacy),
            CHOSEN,
        ],
        "asked": agreed.clients,
        "pinned": False,
        "dropped": {},
        "late": {},
        "opened": [opened],
        "candidates": CANDIDATES,
        "seconds": {},
        "run": RUN,
        "ledger": None,
        "simulation": None,
        "hushtune": ht.__version__,
    }
    return Result(**{**fields, **changes})


class Parrot(Federation):
    """Clients under seal 'clear' that send what they are told to, and remember what they were asked."""

    def __init__(self, clients: int = 10, vector: Sequence[int] = (1, 0, 0, 0)) -> None:
        self.roster, self.traffic, self.simulated = Roster(tuple(f"c{n}" for n in range(clients))), Traffic(), False
        self.replies: dict[str, Any] = dict.fromkeys(self.roster.ids, protect(np.array(vector)))
        self.log: list[Any] = []

    def key(self) -> str:
        return "parrots"

    def coordinator_ledger(self) -> ht.Ledger:
        raise AssertionError("tests give one")

    def exchange(self, trip: Trip, observer: ht.Observer) -> Any:
        self.log.append(trip)
        return self.replies

    def score(self, search: Any, domain: Any, observer: Any, private: bool, parts: Any) -> None:
        self.log.append(("score", search, private))

    def asked(self) -> list[Request]:
        """What clients were asked, once for each trip."""
        trips = [trip for trip in self.log if isinstance(trip, Trip)]
        return [Request.from_bytes(next(iter(trip.messages.values()))) for trip in trips]
