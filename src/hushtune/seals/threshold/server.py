"""The server's end of the threshold seal: adds up shares and ciphertexts, computes, and learns what all open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from hushtune.errors import AbortedError, RefusedError, WireError
from hushtune.forms import Form
from hushtune.mhe.circuits import MOST_OPENINGS, Circuit, Parameters, offset_of, segments
from hushtune.mhe.process import Sidecar
from hushtune.roster import Id, Roster
from hushtune.seals.base import Exchange, Reserve
from hushtune.seals.threshold_wire import END, KIND, TAG, checked, packed
from hushtune.space import FloatArray
from hushtune.wire import unpack_reply

Plan = Callable[[Form | None, int, int, int], Circuit]
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
        plan: how a form is computed.
        first: the number of its first round.
    """

    def __init__(self, run: str, roster: Roster, plan: Plan, first: int = 0) -> None:
        self._run, self._ids, self._plan = run, roster.ids, plan
        self._round = first - 1
        self._keys: _Keys | None = None
        self._opened = 0
        self._pending: list[bytes] = []  # the joint public key, and what completes the relinearisation key

    def open(
        self,
        request: bytes,
        form: Form | None,
        length: int,
        largest: int,
        exchange: Exchange,
        last: bool,
        reserve: Reserve,
    ) -> FloatArray:
        """The values of a form of the sum.

        Args:
            request: the request's bytes, the same for all clients.
            form: what is opened; None: the sum.
            length: of what is opened.
            largest: the largest absolute value of an entry of the sum.
            exchange: the transport.
            last: whether this is the run's last opening.
            reserve: called once, right before clients are asked for inputs.

        Raises AbortedError, with nothing opened, as soon as one client is missing.
        """
        circuit = self._plan(form, len(self._ids), largest, length)
        pieces = -(-length // circuit.parameters.slots) if form is None else 1
        self._round += 1
        try:
            keys = self._ready(circuit, pieces, request, exchange)
            reserve()
            self._inputs(keys, circuit, request, exchange)
            small = self._evaluate(keys.evaluator, circuit, form, largest, exchange)
            shares = self._trip("decrypt", dict.fromkeys(self._ids, tuple(small)), exchange, last=last)
            self._opened += pieces
            return self._fused(keys.evaluator, circuit, shares, length)
        except RefusedError as error:
            raise AbortedError(f"the server could not compute: {error}") from None
        finally:
            if last:
                self.close()

    # ---- keys ----------------------------------------------------------------------------------------

    def _ready(self, circuit: Circuit, pieces: int, request: bytes, exchange: Exchange) -> _Keys:
        """Keys that will do, made anew if there are none."""
        if pieces > MOST_OPENINGS:
            raise AbortedError(
                f"a sum of {pieces} ciphertexts cannot be opened under one set of keys, which is for {MOST_OPENINGS}"
            )
        keys = self._keys
        fits = keys is not None and keys.parameters == circuit.parameters and keys.multiplies >= circuit.multiplies
        if keys is None or not fits or self._opened + pieces > MOST_OPENINGS:
            self.close()
            keys = self._keys = self._made(circuit, request, exchange)
            self._opened = 0
        return keys

    def _made(self, circuit: Circuit, request: bytes, exchange: Exchange) -> _Keys:
        lead, *others = self._ids
        evaluator = Sidecar.start(dict(vars(circuit.parameters)), party=False)
        keys = _Keys(evaluator, circuit.parameters, circuit.multiplies)
        self._keys = keys
        first = self._trip("lead", {lead: (request,)}, exchange)
        first |= self._trip("join", dict.fromkeys(others, (*first[lead], request)), exchange)
        (public,) = evaluator.call("public", *(shares[0] for shares in first.values()), tag=TAG)
        self._pending = [public, b""]
        if circuit.multiplies:
            (joined,) = evaluator.call("first", *(shares[1] for shares in first.values()), tag=TAG)
            second = self._trip("relin", dict.fromkeys(self._ids, (joined,)), exchange)
            self._pending = [public, *evaluator.call("second", *(shares[0] for shares in second.values()), tag=TAG)]
        return keys

    # ---- one opening ---------------------------------------------------------------------------------

    def _inputs(self, keys: _Keys, circuit: Circuit, request: bytes, exchange: Exchange) -> None:
        public, relin = self._pending or (b"", b"")
        found = self._trip("input", dict.fromkeys(self._ids, (public, relin, request)), exchange)
        if relin:
            keys.evaluator.call("third", *(parts.pop() for parts in found.values()), tag=TAG)
        self._pending = []
        for at, parts in enumerate(found.values()):
            keys.evaluator.call("add", *parts, fresh=at == 0)

    def _evaluate(
        self, evaluator: Sidecar, circuit: Circuit, form: Form | None, largest: int, exchange: Exchange
    ) -> list[bytes]:
        """The ciphertexts to be decrypted."""
        if not circuit.multiplies:
            return evaluator.call("whole", towers=_WHOLE)
        if form is not None and form.over is not None:
            offset = offset_of(form, largest) if circuit.newton else None
            evaluator.call("divide", factors=circuit.series, offset=offset)
            return evaluator.call("found", towers=_FOUND)
        for turn, segment in enumerate(segments(circuit)):
            if turn:
                asked = tuple(evaluator.call("boot"))
                shares = self._trip("refresh", dict.fromkeys(self._ids, asked), exchange, turn)
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
        return np.concatenate(found)

    def _trip(
        self, name: str, out: Mapping[Id, tuple[bytes, ...]], exchange: Exchange, turn: int = 0, last: bool = False
    ) -> dict[Id, list[bytes]]:
        """What came back from everybody; if one is missing, nothing can be opened any more."""
        header = {"kind": KIND, "run": self._run, "round": self._round, "trip": name, "turn": turn, "last": last}
        made = {parts: packed(header, *parts) for parts in set(out.values())}  # most are the same for all
        replies = exchange(name, {client: made[parts] for client, parts in out.items()})
        found, missing = {}, {}
        for client in out:
            try:
                kind, content = unpack_reply(replies.get(client))
                if kind.get("kind") != name or kind.get("round") != self._round:
                    raise WireError(f"a reply to '{name}' of round {self._round} was expected")
                checked(kind, content)
                found[client] = content
            except WireError as error:
                missing[client] = str(error)
        if missing:
            client, reason = next(iter(missing.items()))
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            self.close()
            end = packed({**header, "trip": END})
            exchange(END, dict.fromkeys(self._ids, end))  # whoever hears it need not keep a key share
            raise AbortedError(
                f"seal 'threshold' needs all {len(self._ids)} clients, but lost {client}{more} in trip '{name}': "
                f"{reason}"
            )
        return found

    def close(self) -> None:
        """Ends the evaluator."""
        if self._keys is not None:
            self._keys.evaluator.close()
            self._keys = None
