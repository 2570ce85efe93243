"""One opening: asks the clients through the seal, and gives what became known, ready to be kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hushtune.client.query import Query
from hushtune.client.search.base import Search
from hushtune.core.arrays import IntArray
from hushtune.core.observer import Observer
from hushtune.core.randomness import drawn_from
from hushtune.core.space import Domain
from hushtune.federation.base import Federation
from hushtune.privacy.limits import one_client
from hushtune.run.account import Account
from hushtune.run.folder import Kept, RunFolder
from hushtune.run.result import Opened
from hushtune.run.terms import Terms
from hushtune.seals.ends import Ask, Outcome, Replies, ServerEnd, Trip, check_enough, converse
from hushtune.seals.forms import Form, in_blocks
from hushtune.seals.oracle import ANSWERS, Choose


class Opener:
    """Makes a run's openings, one after the other.

    Args:
        terms: the run's.
        federation: the clients, and how to reach them.
        folder: where openings are kept.
        account: charged right before inputs are asked for.
        observer: who watches.
        seed: of a marked simulation; None: a real run.
    """

    def __init__(
        self,
        terms: Terms,
        federation: Federation,
        folder: RunFolder,
        account: Account,
        observer: Observer,
        seed: int | None,
    ) -> None:
        self._terms, self._federation, self._folder, self._account = terms, federation, folder, account
        self._observer, self._seed = observer, seed
        self._over = False  # whether others were told to forget the run
        self._server: ServerEnd | None = None
        self._scored: tuple[Search, Domain] | None = None
        self.seconds_scoring = 0.0

    def open(self, query: Query, step: int, form: Form | None, each: bool, choose: Choose | None) -> Kept:
        """What clients say to a query, as far as it is opened.

        Args:
            query: what each unit is asked.
            step: which opening.
            form: which form of the sum is opened; None: the sum.
            each: whether every client's own answer is opened instead.
            choose: asks about the sums, which are not opened then.
        """
        self._score(query)
        ask = self._ask(query, step, form, each, choose)
        try:
            outcome = converse(self._end(query, step, form).open(ask), self._exchange(step), self._account.reserve)
        except BaseException:
            if ask.answers:
                self._account.opened(step, now=True)
            if ask.answers and not self._terms.seal.repeats:  # on record: a second call gets no other answers
                answered = self._terms.clients - len(ask.missing)
                self._folder.keep(Opened(query.name, {ANSWERS: ask.answers}, 0.0, answered), ask.missing, {})
            raise
        return self._kept(query, ask, outcome), dict(outcome.missing), dict(outcome.late)

    def _kept(self, query: Query, ask: Ask, outcome: Outcome) -> Opened:
        terms = self._terms
        check_enough(terms.needed, terms.clients, outcome.missing, "answer")
        answered = terms.clients - len(outcome.missing)
        if outcome.own is not None:
            each = {client: _plain(query, vector) for client, vector in outcome.own.items()}
            return Opened(query.name, {}, 0.0, answered, each)
        if ask.choose is not None:
            return Opened(query.name, {ANSWERS: ask.answers}, 0.0, answered)
        blocks = _plain(query, outcome.values) if ask.form is None else {ask.form.block: outcome.values.tolist()}
        variance = terms.noise.opened_variance(terms.honest, answered)
        said = ask.form.to_json() if ask.form is not None else None
        return Opened(query.name, blocks, variance, answered, form=said, smudging=outcome.smudging)

    def _ask(self, query: Query, step: int, form: Form | None, each: bool, choose: Choose | None) -> Ask:
        terms, due = self._terms, self._terms.due(query, form)
        request = terms.request(self._folder.run, step, self._federation.roster.digest(), query, form)
        return Ask(
            request=request.to_bytes(),
            length=query.bound.length,
            largest=due.largest,
            needed=terms.needed,
            last=step == terms.openings - 1,
            form=form,
            opens=due.opens,
            each=each,
            noise=terms.noise,
            randomness=drawn_from(self._seed, f"curator {step}"),
            scores=query.bound if query.bound.tests else None,
            units=terms.clients * terms.voters,
            added=query.added,
            choose=choose,
            check=one_client(query.bound, terms.voters, terms.clients, terms.noise, terms.honest).check,
            step=step,
        )

    def _end(self, query: Query, step: int, form: Form | None) -> ServerEnd:
        """The server's end of the seal, for all openings that are made without an interruption."""
        if self._server is None:
            roster = self._federation.roster
            request = self._terms.request(self._folder.run, step, roster.digest(), query, form)
            first = self._folder.first_round()
            self._server = self._terms.seal.server(self._folder.run, roster, request.terms(), first, self._folder.place)
        return self._server

    def _exchange(self, step: int) -> Any:
        """Carries one trip; people are shown which opening it is of."""
        which = f"{step + 1} of {self._terms.openings}: " if self._terms.openings > 1 else ""

        def exchange(trip: Trip) -> Replies:
            named = replace(trip, name=which + self._terms.seal.shown + trip.name)
            return self._federation.exchange(named, self._observer)

        return exchange

    def _score(self, query: Query) -> None:
        """Has clients fill the trials that an answer looks up, unless they have just done so."""
        if query.scored == self._scored:
            return
        start = time.monotonic()
        private = self._terms.privacy is not None
        self._federation.score(*query.scored, self._observer, private, self._terms.parts)
        self._scored = query.scored
        self.seconds_scoring += time.monotonic() - start

    def finish(self) -> None:
        """Has others forget what they keep for the run, as all it opened is on record: also if that was interrupted."""
        self._over = True
        server = self._server
        if server is None and self._account.openings:
            server = self._terms.seal.server(self._folder.run, self._federation.roster, "", folder=self._folder.place)
        if server is not None:
            converse(server.finish(), self._exchange(self._terms.openings - 1), self._account.reserve)

    def close(self) -> None:
        """Ends the server's end of the seal, and what the federation has begun for the run. A run without a folder is
        not taken up again: others forget what they keep for it, whatever has ended it.
        """
        if self._folder.place is None and not self._over:
            with suppress(Exception):
                self.finish()
        self._federation.close()
        if self._server is not None:
            self._server.close()


def _plain(query: Query, vector: Any) -> dict[str, list[Any]]:
    parts: Mapping[str, IntArray] = in_blocks(query.blocks, vector)
    return {name: part.tolist() for name, part in parts.items()}
