"""The server's end of the threshold seal: adds up shares and ciphertexts, computes, and learns what all open."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

from hushtune.core.arrays import FloatArray
from hushtune.core.errors import AbortedError, RefusedError, WireError
from hushtune.core.roster import Id, Roster
from hushtune.core.wire import unpack_reply
from hushtune.seals.ends import Ask, Outcome, Replies, Trip, Trips
from hushtune.seals.forms import Form
from hushtune.seals.threshold.circuits import MOST_OPENINGS, Circuit, Parameters, offset_of, segments
from hushtune.seals.threshold.process import Sidecar
from hushtune.seals.threshold.wire import BEGINS, END, KIND, checked, common_seed, packed

Circuits = Callable[[Form | None, int, int, int], tuple[Circuit, float]]
"""How a form is computed, and how many bits of smudging that reaches."""

_Found = TypeVar("_Found")
_Steps = Generator[Trip, Replies, _Found]
"""Part of an opening: some trips, and what they gave."""

_WHOLE = 2  # moduli that are left of a sum which is opened as it is
_FOUND = 1


class _Keys(NamedTuple):
    """A set of keys: the evaluator that has them, for which parameters, and what was not sent to clients yet."""

    evaluator: Sidecar
    parameters: Parameters
    multiplies: bool


class ThresholdServer:
    """The server in one run.

    Args:
        run: its id.
        roster: its clients: all of them are needed.
        circuits: how a form is computed, and how many bits of smudging that reaches.
        first: the number of its first round.
    """

    def __init__(self, run: str, roster: Roster, circuits: Circuits, first: int = 0) -> None:
        self._run, self._roster, self._ids, self._circuits = run, roster, roster.ids, circuits
        self._round = first - 1
        self._keys: _Keys | None = None
        self._opened = 0
        self._pending: list[bytes] = []  # of the joint public key, and what completes the relinearisation key

    def open(self, ask: Ask) -> Trips:
        """The values of a form of the sum. Raises AbortedError, with nothing opened, as soon as a client is missing."""
        circuit, bits = self._circuits(ask.form, len(self._ids), ask.largest, ask.opens)
        pieces = -(-ask.opens // circuit.parameters.slots) if ask.form is None else 1
        self._round += 1
        try:
            keys = yield from self._ready(circuit, pieces, ask.request)
            yield from self._inputs(keys, ask.request, _ciphertexts(circuit, pieces))
            small = yield from self._evaluate(keys.evaluator, circuit, ask.form, ask.largest)
            out = dict.fromkeys(self._ids, tuple(small))
            shares = yield from self._trip("decrypt", out, len(small), last=ask.last)
            self._opened += pieces
            values = self._fused(keys.evaluator, circuit, shares, ask.opens)
            quotients = ask.form is not None and ask.form.over is not None
            opened = values if quotients else np.rint(values).astype(np.int64)
            return Outcome(opened, {}, {}, smudging=bits)
        except RefusedError as error:
            raise AbortedError(f"the server could not compute: {error}") from None

    # ---- keys ----------------------------------------------------------------------------------------

    def _ready(self, circuit: Circuit, pieces: int, request: bytes) -> _Steps[_Keys]:
        """Keys that will do, made anew if there are none."""
        if pieces > MOST_OPENINGS:
            raise AbortedError(
                f"a sum of {pieces} ciphertexts cannot be opened under one set of keys, which is for {MOST_OPENINGS}"
            )
        keys = self._keys
        fits = keys is not None and keys.parameters == circuit.parameters and keys.multiplies >= circuit.multiplies
        if keys is None or not fits or self._opened + pieces > MOST_OPENINGS:
            self.close()
            keys = self._keys = yield from self._made(circuit, request)
            self._opened = 0
        return keys

    def _made(self, circuit: Circuit, request: bytes) -> _Steps[_Keys]:
        seed = common_seed(self._run, self._roster, self._round)
        evaluator = Sidecar.start(dict(vars(circuit.parameters)), seed, party=False)
        keys = _Keys(evaluator, circuit.parameters, circuit.multiplies)
        self._keys = keys
        first = yield from self._trip(BEGINS, dict.fromkeys(self._ids, (request,)), 1 + circuit.multiplies)
        (public,) = evaluator.call("public", *(shares[0] for shares in first.values()))
        self._pending = [public, b""]
        if circuit.multiplies:
            (joined,) = evaluator.call("first", *(shares[1] for shares in first.values()))
            second = yield from self._trip("relin", dict.fromkeys(self._ids, (joined,)), 1)
            self._pending = [public, *evaluator.call("second", *(shares[0] for shares in second.values()))]
        return keys

    # ---- one opening ---------------------------------------------------------------------------------

    def _inputs(self, keys: _Keys, request: bytes, ciphertexts: int) -> _Steps[None]:
        public, relin = self._pending or (b"", b"")
        out = dict.fromkeys(self._ids, (public, relin, request))
        found = yield from self._trip("input", out, ciphertexts + bool(relin))
        if relin:
            keys.evaluator.call("third", *(parts.pop() for parts in found.values()))
        self._pending = []
        for at, parts in enumerate(found.values()):
            keys.evaluator.call("add", *parts, fresh=at == 0)

    def _evaluate(self, evaluator: Sidecar, circuit: Circuit, form: Form | None, largest: int) -> _Steps[list[bytes]]:
        """The ciphertexts to be decrypted."""
        if not circuit.multiplies:
            return evaluator.call("whole", towers=_WHOLE)
        if form is not None and form.over is not None:
            offset = offset_of(form, largest) if circuit.newton else None
            evaluator.call("divide", factors=circuit.series, offset=offset)
            return evaluator.call("found", towers=_FOUND)
        for turn, segment in enumerate(segments(circuit)):
            if turn:
                pieces = tuple(evaluator.call("boot", label=f"{self._round} {turn}"))
                shares = yield from self._trip("refresh", dict.fromkeys(self._ids, pieces), 2, turn)
                evaluator.call("booted", *(share for parts in shares.values() for share in parts))
            for at, coefficients in enumerate(segment):
                evaluator.call("polynomial", coefficients=coefficients, fresh=turn + at == 0)
        return evaluator.call("found", towers=_FOUND)

    def _fused(self, evaluator: Sidecar, circuit: Circuit, shares: Mapping[Id, list[bytes]], length: int) -> FloatArray:
        found = []
        for piece in zip(*shares.values(), strict=True):
            left = min(length, circuit.parameters.slots)
            found.append(np.frombuffer(evaluator.call("fuse", *piece, length=left)[0]))
            length -= left
        return np.concatenate(found) / circuit.finer

    def _trip(
        self, name: str, out: Mapping[Id, tuple[bytes, ...]], due: int, turn: int = 0, last: bool = False
    ) -> _Steps[dict[Id, list[bytes]]]:
        """What came back from everybody, `due` parts each; if one is missing, nothing can be opened any more."""
        header = {"kind": KIND, "run": self._run, "round": self._round, "trip": name, "turn": turn, "last": last}
        made = {parts: packed(header, *parts) for parts in set(out.values())}  # most are the same for all
        messages = {client: made[parts] for client, parts in out.items()}
        replies = yield Trip(name, messages, inputs=name == "input")
        found, missing = {}, {}
        for client in out:
            try:
                kind, content = unpack_reply(replies.get(client))
                if kind.get("kind") != name or kind.get("round") != self._round:
                    raise WireError(f"a reply to '{name}' of round {self._round} was expected")
                checked(kind, content)
                if len(content) != due:
                    raise WireError(f"a reply to '{name}' must have {due} parts, but got {len(content)}")
                found[client] = content
            except WireError as error:
                missing[client] = str(error)
        if missing:
            client, reason = next(iter(missing.items()))
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            self.close()
            end = packed({**header, "trip": END})
            yield Trip(END, dict.fromkeys(self._ids, end))  # whoever hears it need not keep a key share
            raise AbortedError(
                f"seal 'threshold' needs all {len(self._ids)} clients, but lost {client}{more} in trip '{name}': "
                f"{reason}"
            )
        return found

    def finish(self) -> Generator[Trip, Replies, None]:
        """No trips: nobody keeps anything for the run."""
        yield from ()

    def close(self) -> None:
        """Ends the evaluator's process, if there is one."""
        if self._keys is not None:
            self._keys.evaluator.close()
            self._keys = None


def _ciphertexts(circuit: Circuit, pieces: int) -> int:
    """How many each client encrypts: a division has two, its divisor and what is divided."""
    return 2 if circuit.kind == "division" else pieces
