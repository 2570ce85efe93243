"""A client on a machine of its own, for transports that may start a new process for every message.

Trials, the ledger and all replies given are on disk before a reply leaves; the secrets of a masked run in progress are
in `state`, which the transport keeps for the client and which is empty when the run is over. Knows no transport.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from hushtune.client.client import Client
from hushtune.client.failures import kept_inside
from hushtune.client.objectives.base import check_data
from hushtune.client.party import Party
from hushtune.client.release import Session, refused, respond, seat_of
from hushtune.client.request import Request
from hushtune.client.trials import TrialStore
from hushtune.core.errors import CacheError, RefusedError, SettingError, WireError, described
from hushtune.core.files import make_folder, own
from hushtune.core.observer import unseen
from hushtune.core.randomness import SimulatedRandomness, SystemRandomness
from hushtune.core.roster import Id, Roster
from hushtune.core.secret import Secret
from hushtune.core.wire import unpack
from hushtune.federation.envelope import Answer, Letter, proof_text
from hushtune.privacy.ledger import Ledger
from hushtune.seals.registry import seal_from_json


class Endpoint:
    """One client: letters in, answers out.

    Args:
        client: data, objective, policy and identity.
        name: what its files go by at home; its name in the roster, if one is pinned.
        node: its name in a roster that the server gives, if none is pinned.
        home: folder of its ledger and cached trials.
        roster: the pinned roster it was given; None: the server's word is taken for who takes part.
        seed: of a marked simulation; None: a real run.
        jobs: processes for scoring.
    """

    def __init__(
        self, client: Client, name: Id, node: Id, home: Path, roster: Roster | None, seed: int | None, jobs: int
    ) -> None:
        self._client = client
        self._name = name
        self._node = node
        self._home = home
        self._roster = roster
        self._seed = seed
        self._jobs = jobs

    def reply(self, content: bytes, state: bytes) -> tuple[bytes, bytes]:
        """The answer to one letter, and the state to be given along with the next one."""
        name = self._name if self._roster is not None else self._node
        party = self._party(name)
        try:
            make_folder(self._home)
            own(party.folder, folder=True)
            own(party.store.path)
            party.secret.make()
            letter = Letter.from_bytes(content)
            reply, state = self._respond(letter, party, json.loads(state) if state else {})
        except CacheError as error:
            party.log(f"could not answer: {described(error)}")
            reply = refused("internal error; see the client's own log")
        except (RefusedError, SettingError, WireError) as error:
            reply = refused(str(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            party.log(f"could not answer: {described(error)}")
            reply = refused("internal error; see the client's own log")
        identity, proof = self._client.identity, b""
        if self._roster is not None and identity is not None:
            proof = identity.sign(proof_text(name, self._node, content))
        return Answer(reply, name, self._seed is not None, proof).to_bytes(), state

    def _party(self, name: Id) -> Party:
        folder = self._home / "clients" / self._name
        ledger = None if self._seed is not None else self._client.ledger or Ledger(folder / "ledger.db")
        store = TrialStore(self._home / "trials.db")
        secret = Secret.kept(folder) if self._seed is None else Secret.simulated(self._seed, self._name)
        return Party(
            name,
            self._client,
            store,
            folder,
            SystemRandomness(),
            ledger,
            secret=secret,
            detached=True,
            tells=self._seed is not None,
            own=self._name,
        )

    def _respond(self, letter: Letter, party: Party, state: dict[str, Any]) -> tuple[bytes, bytes]:
        run = str(unpack(letter.message)[0].get("run"))
        kept = state if state.get("run") == run else {}
        if state and not kept:
            _over(state, party)
        if self._seed is not None:
            party.randomness = SimulatedRandomness(self._seed, self._name, drawn=kept.get("drawn", 0))
        roster = self._roster or _named(kept.get("nodes") or letter.nodes)
        if party.id not in roster.ids:
            raise RefusedError("the roster does not name this client")
        party.place = roster.ids.index(party.id), len(roster)
        if "session" in kept:
            party.sessions[run] = _restored(kept, roster, party)
        reply = respond(letter.message, party, roster, lambda request: self._prepare(request, party))
        session: Session | None = party.sessions.get(run)
        if session is not None and session.end.made(reply):
            kept = {} if session.end.done else _dumped(session, run, None if self._roster else roster.ids)
        elif "session" in state:  # refused, or on record already: nothing has changed
            return reply, json.dumps(state).encode()
        if isinstance(party.randomness, SimulatedRandomness):
            kept = {**kept, "run": run, "drawn": party.randomness.drawn}
        return reply, json.dumps(kept).encode() if kept else b""

    def _prepare(self, request: Request, party: Party) -> None:
        """Searches as the query asks for, in other processes: what kills one of them is nobody else's business."""
        search, domain = request.query.scored
        private, objective = request.privacy is not None and not party.tells, self._client.objective
        if not private and party.loaded():
            check_data(objective, party.data)  # with an epsilon, data of the wrong kind is a failure that nobody sees
        units = party.parts(request.parts)
        with kept_inside(party, units, private):
            search.fill(units, domain, self._jobs, unseen, private, apart=True)


def _named(nodes: Any) -> Roster:
    if nodes is None:
        raise RefusedError("no roster was given to this client, and the server names no nodes")
    return Roster(tuple(nodes))


def _over(state: dict[str, Any], party: Party) -> None:
    """Ends what an earlier run, which was given up, has left running."""
    if "session" in state:
        with suppress(RefusedError, SettingError):
            _restored(state, Roster((party.id,)), party).end.close()


def _restored(kept: dict[str, Any], roster: Roster, party: Party) -> Session:
    """The client's end of a seal as the last process left it."""
    seal = seal_from_json(kept["seal"])
    end = seal.client(seat_of(party, roster, kept["run"], seal, kept["terms"]))
    return Session(seal, end.load(kept["session"].encode()), restored=True)


def _dumped(session: Session, run: str, nodes: tuple[Id, ...] | None) -> dict[str, Any]:
    return {
        "run": run,
        "nodes": nodes,
        "terms": session.end.terms,
        "seal": session.seal.to_json(),
        "session": session.end.dump().decode(),
    }
