"""The client's end of the threshold seal. The secret is in its sidecar; here is what it is asked to do with it.

The trips of a first opening:

    keys      all give a public key share and, if there is something to multiply, a first relinearisation share
    relin     all give their second relinearisation shares
    input     all encrypt their vectors under the joint public key, and give their third relinearisation shares
    refresh   as often as the circuit has one: all give their shares of a distributed bootstrapping
    decrypt   all decrypt partially, with smudging that each derives from the request
    end       after an abort: all forget their keys

Later openings with the same keys begin with `input`.

Keys travel without their common random polynomials, which each client derives from run, roster and round. All give
their shares in the same trip, so nobody's share depends on another one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hushtune.core.errors import MissingExtraError, RefusedError, WireError
from hushtune.core.wire import unpack
from hushtune.seals.ends import Due, Seat
from hushtune.seals.forms import Form, in_blocks
from hushtune.seals.threshold.circuits import MOST_OPENINGS, Circuit, inputs, refreshes
from hushtune.seals.threshold.process import Sidecar
from hushtune.seals.threshold.wire import BEGINS, END, checked, common_seed, packed

_PARTS = {
    BEGINS: (1,),
    "relin": (1,),
    "input": (3,),
    "refresh": (1,),
    "decrypt": range(1, 65),
    END: (0,),
}
_TURNS = {"refresh": range(1, 64)}  # of a trip in one round; how many of them there are, the circuit says


class Task(NamedTuple):
    """What a request says about one opening, as far as encryption is concerned.

    Args:
        circuit: how its form is computed.
        form: what is opened; None: the sum.
        largest: the largest absolute value of an entry of the sum.
        deviation: of this client's smudging.
    """

    circuit: Circuit
    form: Form | None
    largest: int
    deviation: float


class _Ask(NamedTuple):
    """One message, taken apart; `again`: it was answered before."""

    sidecar: Sidecar
    place: str
    round: int
    turn: int
    parts: list[bytes]
    task: Task | None
    due: Due | None
    again: bool


@dataclass(repr=False)
class ThresholdClient:
    """One client in one run.

    Args:
        seat: where it sits; its folder is where a sidecar that outlives this process is found again. None: the sidecar
            is this process's child.
        task_of: what a request says about an opening, as far as encryption is concerned.
    """

    seat: Seat
    task_of: Callable[[Due], Task]
    _sidecar: Sidecar | None = None
    _state: dict[str, Any] = field(default_factory=lambda: {"keys": -1, "rounds": {}})

    def __repr__(self) -> str:
        return f"ThresholdClient(client={self.seat.number})"

    @property
    def terms(self) -> str:
        """One text for the run's seal, privacy, noise and events."""
        return self.seat.terms

    def made(self, reply: bytes) -> bool:
        """Every reply may change what it has to know."""
        return True

    @property
    def done(self) -> bool:
        """Whether it holds no secrets any more."""
        return self._sidecar is None

    def step(self, message: bytes, due: Due | None) -> bytes:
        """The reply to one message; the same message again gets the same bytes, another one for its place is refused.

        Args:
            message: the server's.
            due: what the request in it asks for, if there is one.
        """
        header, parts = unpack(message)
        task = self.task_of(due) if due is not None else None
        trip, round_, turn = header.get("trip"), header.get("round"), header.get("turn")
        if header.get("run") != self.seat.run:
            raise RefusedError("a message of another run")
        if trip not in _PARTS or type(round_) is not int or type(turn) is not int or turn not in _TURNS.get(trip, (0,)):
            raise WireError(f"a threshold message must have a trip, a round and a turn, but got {trip!r}, {round_!r}")
        if len(parts) not in _PARTS[trip]:
            raise WireError(f"trip '{trip}' must have {list(_PARTS[trip])[:3]} parts, but got {len(parts)}")
        checked(header, parts)
        if trip == END:
            self.close()
            return packed({"kind": END, "round": round_})
        if trip == BEGINS and round_ > self._state["keys"]:
            self._begin(round_, task)
        elif round_ < self._state["keys"]:
            raise RefusedError(f"round {round_} is over")
        sidecar, place = self._running(), f"{round_} {trip} {turn}"
        said = json.dumps(header, sort_keys=True).encode()  # with the digest of all parts
        known = sidecar.call("recall", name=place)
        if known and known != [said]:
            raise RefusedError(f"trip '{trip}' of round {round_} was answered already, for another message")
        ask = _Ask(sidecar, place, round_, turn, parts, task, due, again=bool(known))
        reply = packed({"kind": trip, "round": round_}, *getattr(self, f"_{trip}")(ask))
        sidecar.call("keep", said, name=place)
        if trip == "decrypt" and header.get("last") is True:
            self.close()
        return reply

    def _begin(self, round_: int, task: Task | None) -> None:
        """A fresh process for a fresh set of keys; the old one is over."""
        if task is None:
            raise WireError("a trip that makes keys must carry the request")
        self.close()
        parameters, seed = dict(vars(task.circuit.parameters)), common_seed(self.seat.run, self.seat.roster, round_)
        try:
            if self.seat.folder is None:
                self._sidecar = Sidecar.start(parameters, seed, party=True)
            else:
                self._sidecar = Sidecar.beside(self.seat.folder / str(round_), parameters, seed)
        except MissingExtraError:  # whose text names a folder of the client's
            raise RefusedError("OpenFHE is not set up on this client; run `hushtune mhe setup` there") from None
        self._state = {"keys": round_, "rounds": {}, "parameters": parameters}
        self._state["multiplies"] = task.circuit.multiplies

    def _running(self) -> Sidecar:
        if self._sidecar is None:
            raise RefusedError("this client has no part in that run, or its state is lost")
        return self._sidecar

    # ---- trips ---------------------------------------------------------------------------------------

    def _keys(self, ask: _Ask) -> list[bytes]:
        return ask.sidecar.once("keys", ask.place, multiply=self._state["multiplies"])

    def _relin(self, ask: _Ask) -> list[bytes]:
        return ask.sidecar.once("second", ask.place, *ask.parts)

    def _input(self, ask: _Ask) -> list[bytes]:
        (public, relin, _), task, sidecar = ask.parts, ask.task, ask.sidecar
        if task is None or vars(task.circuit.parameters) != self._state["parameters"]:
            raise RefusedError("the request asks for other parameters than the keys were made for")
        if task.circuit.multiplies and not self._state["multiplies"]:
            raise RefusedError("the keys were not made for multiplication")
        if public:
            sidecar.once("joint", ask.place, public)
        third = sidecar.once("third", ask.place, relin) if relin else []
        if ask.again:
            return [*sidecar.once("encrypt", ask.place), *third]
        if ask.due is None or ask.due.vector is None:
            raise RefusedError("no input is due in this trip")
        vector, clients = in_blocks(ask.due.blocks, ask.due.vector()), len(self.seat.roster)
        values, levels = inputs(task.circuit, task.form, vector, clients, task.largest)
        pieces = 1 if task.form is not None else len(values)
        self._state["rounds"][str(ask.round)] = {
            "deviation": task.deviation * task.circuit.finer,
            "pieces": pieces,
            "refreshes": refreshes(task.circuit),
        }
        return [*sidecar.once("encrypt", ask.place, *(v.tobytes() for v in values), levels=levels), *third]

    def _refresh(self, ask: _Ask) -> list[bytes]:
        """Only where this client's own circuit has one, one after the other, and before anything is decrypted."""
        most = self._due(ask.round)["refreshes"]
        if ask.turn > most:
            raise RefusedError(f"this circuit has {most} refreshes, but got a message for number {ask.turn}")
        if not ask.again:
            if ask.turn > 1 and not self._answered(ask, f"refresh {ask.turn - 1}"):
                raise RefusedError(f"refresh {ask.turn} must follow refresh {ask.turn - 1}")
            if self._answered(ask, "decrypt 0"):
                raise RefusedError("a refresh must come before what it is for is decrypted")
        return ask.sidecar.once("refresh", ask.place, *ask.parts, label=f"{ask.round} {ask.turn}")

    def _answered(self, ask: _Ask, trip: str) -> bool:
        """Whether the sidecar, where no older state can be put back, has answered a trip of the round."""
        return bool(ask.sidecar.call("recall", name=f"{ask.round} {trip}"))

    def _decrypt(self, ask: _Ask) -> list[bytes]:
        """One opening for each input, with the smudging that this client derived itself."""
        due = self._due(ask.round)
        if len(ask.parts) != due["pieces"]:
            raise RefusedError(f"{due['pieces']} ciphertexts are due, but got {len(ask.parts)}")
        settings = {"lead": self.seat.number == 0, "deviation": due["deviation"], "most": MOST_OPENINGS}
        return ask.sidecar.once("decrypt", ask.place, *ask.parts, **settings)

    def _due(self, round_: int) -> dict[str, Any]:
        due: dict[str, Any] | None = self._state["rounds"].get(str(round_))
        if due is None:
            raise RefusedError(f"this client has sent no input in round {round_}")
        return due

    # ---- between processes ---------------------------------------------------------------------------

    def dump(self) -> bytes:
        """All that is needed to find the sidecar again; no secrets."""
        return json.dumps(self._state).encode()

    def load(self, state: bytes) -> ThresholdClient:
        """Takes up the state that `dump` gave."""
        self._state = json.loads(state)
        if self.seat.folder is not None and self._state["keys"] >= 0:
            self._sidecar = Sidecar.found(self.seat.folder / str(self._state["keys"]))
        return self

    def close(self) -> None:
        """Ends the sidecar, and its secret with it."""
        if self._sidecar is not None:
            self._sidecar.close()
            self._sidecar = None
