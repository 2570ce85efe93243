"""Who learned what: no opening without a line, and no cost that its noise does not pay for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.run.harness import CANDIDATES, PRIVACY, QUERY, terms

import hushtune as ht
from hushtune.methods.propose_test.method import CandidateScores
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.accounting import epsilon_of
from hushtune.privacy.noise.base import Noise
from hushtune.run.disclosures import Disclosure, of_form, of_gathered, of_sum, of_tests
from hushtune.run.result import Opened
from hushtune.seals.forms import Form
from hushtune.seals.oracle import ANSWERS

READERS = "server and every reader of the result"
OPENED = Opened(QUERY.name, {"votes": [7, 2, 0, 1]}, 25.0, 9)


class Told(TopVotes):
    """One whose sum a later request tells to all clients."""

    broadcast = True


def of(seal: ht.Seal, privacy: ht.Privacy | None = PRIVACY, query: Any = QUERY) -> list[Disclosure]:
    agreed = terms(seal=seal, privacy=privacy)
    return of_sum(query, OPENED, seal, 10, agreed.noise, privacy)


def test_a_masked_sum_shows_the_sum_and_what_it_costs() -> None:
    (found,) = of(ht.Masked())
    agreed = terms()
    assert (found.to, found.shape) == (READERS, (4,))
    assert found.what == f"summed {QUERY.meaning}"
    assert found.mechanism == "sum with Skellam noise of standard deviation 5"
    assert found.epsilon == epsilon_of(agreed.events, PRIVACY.delta)
    assert found.epsilon == pytest.approx(2.0, rel=1e-4)


@pytest.mark.parametrize("seal", [ht.Clear(), ht.Curator()], ids=lambda seal: seal.name)
def test_where_the_server_sees_each_contribution_that_comes_first_and_no_epsilon_covers_it(seal: ht.Seal) -> None:
    each, total = of(seal)
    assert (each.to, each.shape, each.epsilon) == ("server", (9, 4), None)
    assert each.what == f"each client's own {QUERY.meaning}"
    share = float(terms(seal=seal).share_variance) ** 0.5
    assert each.mechanism == f"seal '{seal.name}': " + (
        f"only its own noise share of standard deviation {share:.3g}" if seal.name == "clear" else "exact"
    )
    assert total.mechanism.startswith(
        "sum with " + ("Skellam noise of" if seal.name == "clear" else "Gaussian noise of the curator's, of")
    )


def test_without_epsilon_nothing_has_a_cost() -> None:
    assert [(found.mechanism, found.epsilon) for found in of(ht.Masked(), None)] == [("exact sum", None)]
    assert [found.mechanism for found in of(ht.Clear(), None)] == ["seal 'clear': exact", "exact sum"]


def test_less_noise_costs_more() -> None:
    noise = terms().noise
    costs = [
        of_sum(QUERY, OPENED, ht.Masked(), 10, Noise(noise.scale * share), PRIVACY)[0].epsilon for share in (1, 0.5)
    ]
    assert costs[1] > 1.5 * costs[0]  # type: ignore[operator]


def test_clients_read_what_a_later_request_tells_them() -> None:
    (found,) = of(ht.Masked(), query=Told(1, CANDIDATES, 0))
    assert found.to == "server, all clients and every reader of the result"


def test_tests_show_their_answers_and_cost_all_that_were_announced() -> None:
    query = CandidateScores(CANDIDATES, 0, (0.0, 1.0), 3, 1024)
    noise = Noise(8192.0, "curator")
    opened = Opened(query.name, {ANSWERS: [-1, 2]}, 0.0, 9)
    each, answers = of_tests(query, opened, ht.Curator(), noise, PRIVACY)
    event = query.bound.event(noise, "replace-one")
    assert (each.to, each.shape, each.mechanism) == ("server", (9, 4), "seal 'curator': exact")
    assert answers.to == "every reader of the result"
    assert answers.shape == (2,)  # two were asked
    assert answers.mechanism == "tests of the sums under exact noise, at most 3, each of epsilon 0.25"
    assert answers.epsilon == epsilon_of((event,), PRIVACY.delta)  # three are paid for


@pytest.mark.parametrize(
    "bound", [TopVotes(1, CANDIDATES, 0, 1), CandidateScores(CANDIDATES, 0, (0, 1), 1, 1024, True)]
)
def test_a_winner_is_said_to_be_no_more_than_a_place(bound: Any) -> None:
    opened = Opened(bound.name, {ANSWERS: [2]}, 0.0, 9)
    each, place = of_tests(bound, opened, ht.Curator(), Noise(4096.0, "curator"), PRIVACY)
    assert each.to == "server"
    assert place.what == "the winner's place among the candidates, and not how far ahead it is"
    assert place.shape == (1,)
    assert place.epsilon is not None


def test_exact_answers_claim_no_epsilon() -> None:
    query = TopVotes(1, CANDIDATES, 0, 1)
    opened = Opened(query.name, {ANSWERS: [2]}, 0.0, 9)
    each, place = of_tests(query, opened, ht.Curator(), Noise(0.0, "curator"), None)
    assert [(found.mechanism, found.epsilon) for found in (each, place)] == [
        ("seal 'curator': exact", None),
        ("exact", None),
    ]


@pytest.mark.parametrize(("smudging", "more"), [(None, ""), (40.5, "; smudging lambda 40.5")])
def test_a_form_shows_its_values_and_nothing_else(smudging: float | None, more: str) -> None:
    form, seal = Form("votes", at_least=2), ht.Threshold()
    opened = Opened(QUERY.name, {"votes": [1, 1, 0, 0]}, 0.0, 10, form=form.to_json(), smudging=smudging)
    found = of_form(QUERY, opened, form, seal)
    assert found.what == f"of the summed {QUERY.meaning}: which of the votes are at least 2"
    assert (found.to, found.shape, found.epsilon) == (READERS, (4,), None)
    assert found.mechanism == f"seal 'threshold': {seal.computing}{more}"


def test_gathered_answers_are_disclosed_with_their_owners_names() -> None:
    own = {name: {"votes": [1, 0, 0, 0]} for name in ("anna", "bert")}
    found = of_gathered(QUERY, Opened(QUERY.name, {}, 0.0, 2, own), ht.Clear())
    assert found == Disclosure(READERS, f"{QUERY.meaning}, of each of anna, bert", (2, 4), "seal 'clear': exact", None)
