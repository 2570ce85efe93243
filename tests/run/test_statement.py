"""The statement says what a run revealed, and nothing that does not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.run.harness import PRIVACY, note, result, terms

import hushtune as ht
from hushtune.core.words import up
from hushtune.privacy.accounting import Budget, Renyi, renyi_epsilon
from hushtune.privacy.events.sums import SkellamVector
from hushtune.privacy.events.training import TrainingSteps
from hushtune.run.result import Result
from hushtune.run.statement import RELATIONS, books, not_covered, statement

RECORD = ht.Privacy(2.0, unit="record", neighbours="add-remove")


def lines(of: Result) -> list[str]:
    return statement(of).split("\n")


def line(of: Result, start: str) -> str:
    """The one line that starts so."""
    (found,) = [text for text in lines(of) if text.strip().startswith(start)]
    return found.strip()


def none(of: Result, *parts: str) -> None:
    for part in parts:
        assert part not in statement(of), part


# ---- the guarantee -----------------------------------------------------------------------------------


def test_without_epsilon_there_is_no_guarantee_and_nothing_that_sounds_like_one() -> None:
    exact = result(terms(privacy=None))
    assert line(exact, "Guarantee") == "Guarantee: NONE. No epsilon was asked for; what was opened is exact."
    none(exact, "differential privacy", "Noise:", "neighbours", "Asked for")


def test_the_guarantee_is_what_was_spent_under_the_rule_with_unit_and_relation() -> None:
    said = result(spent=Budget(1.23456, 1e-6), rule=Renyi(12.0))
    assert line(said, "Guarantee").startswith("Guarantee: (1.235, 1e-06)-differential privacy for each client, ")
    assert line(said, "Asked for") == (
        "Asked for: epsilon 2, delta 1e-05. Computed from the recorded events under rule 'renyi'."
    )


@pytest.mark.parametrize(
    "privacy",
    [PRIVACY, ht.Privacy(2.0, neighbours="zero-out"), RECORD, replace(RECORD, neighbours="replace-one")],
    ids=lambda privacy: f"{privacy.unit} {privacy.neighbours}",
)
def test_unit_and_relation_are_in_words(privacy: ht.Privacy) -> None:
    said = result(terms(privacy=privacy, method=ht.Vote(1, voters=3 if privacy.unit == "record" else 1)))
    words = RELATIONS[privacy.neighbours].format(unit=privacy.unit)
    assert line(said, "Guarantee").endswith(f"for each {privacy.unit}, neighbours '{privacy.neighbours}': {words}.")
    by_record = "A record is one row, or all rows under one person's name"
    assert (by_record in statement(said)) == (privacy.unit == "record")
    assert ("NOT covered: a person with rows at two clients" in statement(said)) == (privacy.unit == "record")
    assert ("a loader that fails" in statement(said)) == (privacy.unit == "record")
    assert (", each with 3 voters" in lines(said)[0]) == (privacy.unit == "record")


def test_who_adds_which_noise() -> None:
    shares, curator = result(), result(terms(seal=ht.Curator()))
    assert line(shares, "Noise") == (
        f"Noise: integer (Skellam) of standard deviation {shares.noise.scale:.4g} from any 8 honest clients, "
        "in shares that each client draws itself."
    )
    assert line(curator, "Noise").startswith(f"Noise: Gaussian of standard deviation {curator.noise.scale:.4g}, ")
    by_renyi = renyi_epsilon(curator.events, PRIVACY.delta)
    assert line(curator, "Accounted for").endswith(f"by Rényi divergences epsilon would be {up(by_renyi)}.")
    none(shares, "Accounted for")
    none(replace(curator, rule=Renyi(12.0)), "Accounted for")


def test_where_scores_are_tested_the_noise_is_the_curators_coins() -> None:
    said = result(terms(method=ht.NoisyMax(), seal=ht.Curator()))
    coins = said.method.drawn(said.seal, said.noise.scale)
    assert coins == f"coins of scale {said.noise.scale:.4g} on each candidate's score (permute-and-flip)"
    assert line(said, "Noise").startswith(f"Noise: exact {coins}, where one unit moves two sums apart by at most ")
    assert line(said, "Noise").endswith("; drawn by the server.")


@pytest.mark.parametrize("seal", [ht.Masked(), ht.Clear()], ids=lambda seal: seal.name)
def test_sampling_is_said_with_who_can_see_the_coins(seal: ht.Seal) -> None:
    events = (SkellamVector(9.0, 4.0, 2.0, 0.5), SkellamVector(9.0, 4.0, 2.0, 0.25), SkellamVector(9.0, 4.0, 2.0))
    said = result(terms(seal=seal), events=events)
    known = "the server and the client itself" if seal.shows_each else "the client itself"
    assert line(said, "Sampling").startswith(
        "Sampling: a client's vector is in a sum with chance 0.25 in 1 of 3 sums, 0.5 in 1 of 3 sums, "
        f"by a coin that nobody but {known} can see"
    )
    none(result(), "Sampling")


def test_training_that_is_charged_with_the_run_is_in_the_guarantee() -> None:
    plain = result()
    trained = replace(plain, events=(*plain.events, TrainingSteps(1.25, 0.02, 300)))
    assert line(trained, "It includes the training that follows: 300 steps of DP-SGD, sampling rate 0.02, ")
    counted, *others = not_covered(trained)
    assert counted.startswith("how many rows there are to train on: that number is PUBLIC")
    assert tuple(others) == not_covered(plain)[1:]
    assert not_covered(plain)[0].startswith("the training that follows")
    none(trained, "Sampling:")  # its batches are no vectors of clients
    none(plain, "It includes the training")


# ---- who took part -----------------------------------------------------------------------------------


def test_everybody_who_is_missing_late_or_left_out_is_named() -> None:
    said = result(dropped={"c1": "no reply"}, left_out={"c2": "no finite loss"}, late={"c3": "gone"})
    assert "  not counted: c1 (no reply)" in lines(said)
    assert "  not counted: c2 (no finite loss)" in lines(said)
    assert "  counted, but of no help in opening the sum: c3 (gone)" in lines(said)
    several = replace(said, opened=said.opened * 2)
    assert "  not counted in all sums: c1 (no reply)" in lines(several)


def test_how_many_answered_is_the_fewest_of_all_sums() -> None:
    said = result()
    fewer = replace(said, opened=[*said.opened, replace(said.opened[0], answered=7)])
    assert "10 clients were asked, 7 answered." in lines(fewer)[0]


def test_a_config_from_elsewhere_is_not_called_a_candidate() -> None:
    assert "chose 1 of 4 public candidates;" in lines(result())[0]
    assert "chose a config that is not among its public candidates;" in lines(result(index=None))[0]


def test_a_simulation_says_so_first() -> None:
    said = lines(result(simulation={"seed": 1}))
    assert said[0].startswith("SIMULATION: noise and ballots come from a seed, no ledger was charged")
    none(result(), "SIMULATION")


# ---- who learned what --------------------------------------------------------------------------------


def test_every_disclosure_is_a_line_and_equal_ones_are_counted() -> None:
    said = result()
    for found in said.disclosures:
        assert any(text.startswith(f"  {found.to}: {found.what}, shape {found.shape}; ") for text in lines(said))
    (opened, choice) = said.disclosures
    several = replace(said, disclosures=[opened, opened, opened, choice, choice])
    assert line(several, opened.to + ": " + opened.what).endswith(f", epsilon {up(opened.epsilon)}; 3 times, that each")
    bare = replace(opened, epsilon=None)
    assert line(replace(said, disclosures=[bare, bare]), bare.to).endswith("; 2 times")


def test_what_a_method_computed_is_told_with_four_digits() -> None:
    said = result(notes={"margin": 0.123456, "word": "all"})
    assert line(said, "Computed from the above") == "Computed from the above: margin 0.1235; word all."
    none(result(), "Computed from the above")


# ---- books -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, ["Mine: 2 runs on record.", "  Limit epsilon 9, delta 0.0001; spent 3, 2e-05; left 6, 8e-05."]),
        (
            {"new": True, "limit": None, "left": None},
            ["Mine: NEW; what was spent on this data before, elsewhere, is not in it."],
        ),
        (
            {"limit": None, "left": None, "exact": 2},
            ["Mine: 2 runs on record.", "  2 of the runs on record opened exact values: no epsilon covers those."],
        ),
    ],
)
def test_the_ledger_before_and_after(changes: dict[str, Any], wanted: list[str]) -> None:
    assert books(note(**changes), "Mine") == wanted


def test_a_shortened_run_says_what_was_asked_for() -> None:
    (*_, last) = books(note(wanted=Budget(5.0, 1e-5)), "Mine")
    assert last == "  It had less left than epsilon 5, delta 1e-05, which was asked for: the run opens fewer sums."


def test_the_coordinators_ledger_is_named_as_one_of_several() -> None:
    assert line(result(ledger=note()), "Coordinator's ledger (each client also keeps its own): 2 runs on record.")
    none(result(), "Coordinator's ledger")


def test_what_is_not_covered_comes_last() -> None:
    assert lines(result())[-1] == f"Not covered: {'; '.join(not_covered(result()))}."
    for part in ("who took part", "how long a client took", "a user's own code"):
        assert part in lines(result())[-1]
