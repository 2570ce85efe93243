"""Who learned what: computed from what a run opened, by the run itself and again by whoever verifies it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hushtune.client.query import Query
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.bounds import Bound
from hushtune.privacy.guarantee import Privacy
from hushtune.privacy.noise.base import Noise
from hushtune.seals.base import Seal
from hushtune.seals.forms import Form
from hushtune.seals.oracle import ANSWERS

if TYPE_CHECKING:
    from hushtune.run.result import Opened


@dataclass(frozen=True)
class Disclosure:
    """One value that became visible to somebody.

    Args:
        to: who saw it.
        what: its meaning.
        shape: its shape.
        mechanism: which protection it had.
        epsilon: what seeing it costs, alone, at the run's delta; None if no guarantee covers it.
    """

    to: str
    what: str
    shape: tuple[int, ...]
    mechanism: str
    epsilon: float | None


OF_EACH = ", of each of "  # before clients' names
CHOSEN = Disclosure("every reader of the result", "the chosen config", (1,), "computed from the above", 0.0)


def of_sum(
    query: Query, opened: Opened, seal: Seal, clients: int, noise: Noise, privacy: Privacy | None
) -> list[Disclosure]:
    """What opening one sum shows to whom."""
    length, found = query.bound.length, []
    if seal.shows_each:
        share = float(noise.share_variance(seal.honest(clients))) ** 0.5
        protection = f"only its own noise share of standard deviation {share:.3g}" if share else "exact"
        each = f"each client's own {query.meaning}"
        found.append(Disclosure("server", each, (opened.answered, length), f"seal '{seal.name}': {protection}", None))
    mechanism, cost = "exact sum", None
    if privacy is not None:
        kind = "Gaussian noise of the curator's," if noise.at == "curator" else "Skellam noise"
        mechanism = f"sum with {kind} of standard deviation {opened.noise_variance**0.5:.4g}"
        cost = epsilon_of((query.bound.event(noise, privacy.change),), privacy.delta)
    return [*found, Disclosure(_readers(query), f"summed {query.meaning}", (length,), mechanism, cost)]


def _readers(query: Query) -> str:
    """Who sees what is opened; clients too, if a later request tells them: queries say so themselves."""
    told = "server, all clients and every reader of the result"
    return told if query.broadcast else "server and every reader of the result"


def of_tests(query: Query, opened: Opened, seal: Seal, noise: Noise, privacy: Privacy | None) -> list[Disclosure]:
    """What answers about sums that stay hidden show to whom."""
    found = []
    if seal.shows_each:
        each, own = f"each client's own {query.meaning}", (opened.answered, query.bound.length)
        found.append(Disclosure("server", each, own, f"seal '{seal.name}': exact", None))
    mechanism, cost = "exact", None
    if privacy is not None:
        event = query.bound.event(noise, privacy.change)
        mechanism, cost = event.words, epsilon_of((event,), privacy.delta)
    shape = (len(opened.blocks[ANSWERS]),)
    what = _answers(query.bound)
    if query.added:
        low, high = min(query.added), max(query.added)
        what += f", after PUBLIC scores from {low} to {high} were added to the candidates' sums"
    return [*found, Disclosure("every reader of the result", what, shape, mechanism, cost)]


def _answers(bound: Bound) -> str:
    """What answers say, and what they do not."""
    if bound.only_max and bound.tests == 1:
        return "the winner's place among the candidates, and not how far ahead it is"
    return "answers to tests: places of candidates"


def of_form(query: Query, opened: Opened, form: Form, seal: Seal) -> Disclosure:
    """What opening a form of a sum shows that a seal has computed: its values, and nothing else."""
    what = f"of the summed {query.meaning}: {form.words}"
    shape = (len(opened.blocks[form.block]),)
    hidden = f"; smudging lambda {opened.smudging}" if opened.smudging is not None else ""
    return Disclosure(_readers(query), what, shape, f"seal '{seal.name}': {seal.computing}{hidden}", None)


def of_gathered(query: Query, opened: Opened, seal: Seal) -> Disclosure:
    """What opening every client's own answer shows: all of it, and whose it is."""
    each = f"{query.meaning}{OF_EACH}{', '.join(opened.own or {})}"
    shape = (opened.answered, query.bound.length)
    return Disclosure("server and every reader of the result", each, shape, f"seal '{seal.name}': exact", None)
