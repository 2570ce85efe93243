"""One client and what it is asked, for tests of the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import hushtune as ht
from hushtune.client.party import Party
from hushtune.client.request import Request
from hushtune.client.trials import TrialStore
from hushtune.core.randomness import SystemRandomness
from hushtune.core.roster import Roster
from hushtune.core.secret import Secret
from hushtune.core.wire import unpack
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.accounting import Sums
from hushtune.privacy.calibration import calibrate, events_of
from hushtune.seals.clear import Clear

CANDIDATES = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=5)
QUERY = TopVotes(2, CANDIDATES, 0)
PRIVACY = ht.Privacy(2.0)
NOISE = calibrate((QUERY.bound,), PRIVACY, Sums())
EVENTS = events_of((QUERY.bound,), PRIVACY, NOISE)
ROSTER = Roster(("a", "b"))
RUN = "0" * 32


class Loss:
    """Returns what it is told to, or raises it."""

    def __init__(self, outcome: Any) -> None:
        self.outcome = outcome

    def fingerprint(self) -> str:
        return repr(self.outcome)

    def losses(self, configs: Sequence[ht.Config], data: Any, seed: int) -> Any:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


def party(tmp_path: Path, outcome: Any = None, policy: ht.Policy | None = None, name: str = "a") -> Party:
    losses = np.arange(5.0) if outcome is None else outcome
    client = ht.Client((np.zeros((1, 1)), np.zeros(1)), Loss(losses), policy=policy)
    return Party(
        name,
        client,
        TrialStore(tmp_path / "trials.db"),
        tmp_path / name,
        SystemRandomness(),
        ht.Ledger(tmp_path / name / "ledger.db"),
        secret=Secret.simulated(0, name),
    )


def request(**changes: Any) -> Request:
    return replace(Request(RUN, 0, ROSTER.digest(), QUERY, None, Clear(), NOISE, PRIVACY, 1, EVENTS), **changes)


def refusal(reply: bytes) -> str:
    header, parts = unpack(reply)
    assert header["kind"] == "refused"
    assert not parts
    return str(header["reason"])
