"""A machine that is rolled back as a whole, ledger included, repeats its answer: it never draws again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.client.harness import CANDIDATES, NOISE, ROSTER, party, request
from tests.federation.harness import Wire, trip_of

import hushtune as ht
from hushtune.client import release
from hushtune.client.party import Party
from hushtune.client.query import Query
from hushtune.client.release import noisy, respond
from hushtune.core.randomness import words
from hushtune.core.roster import Roster
from hushtune.core.secret import Secret
from hushtune.methods.vote.ballots import TopVotes
from hushtune.privacy.bounds import Ball, Bound
from hushtune.seals.plain import vector_of


def twice(folder: Path, answer: Callable[[], bytes]) -> tuple[bytes, bytes]:
    """What a machine answers, and what it answers after all its files were put back, as they are in the end too."""

    def once() -> bytes:
        kept = folder.with_name(folder.name + "-backup")
        shutil.copytree(folder, kept)
        try:
            return answer()
        finally:
            shutil.rmtree(folder)
            shutil.move(kept, folder)

    return once(), once()


@pytest.mark.parametrize("losses", [np.arange(5.0), np.zeros(5), RuntimeError("no loss")])
def test_the_same_request_gets_the_same_bytes(tmp_path: Path, losses: Any) -> None:
    """Also where ties are broken, and where a failing client sends a random ballot."""
    home, message = tmp_path / "machine", request().to_bytes()
    home.mkdir()
    Secret.kept(home).make()

    def answer() -> bytes:
        inside = party(home, losses)
        inside.secret = Secret.kept(home)
        return respond(message, inside, ROSTER)

    first, again = twice(home, answer)
    assert len(vector_of(first, 5)) == 5
    assert first == again


def noise_in(inside: Party, **changes: Any) -> list[int]:
    asked = request(**changes)
    exact = release.contribution(asked.query, inside, asked.parts, True, asked.identity)
    found: list[int] = (noisy(asked, inside, ROSTER) - exact).tolist()
    return found


def test_another_vector_never_has_the_same_noise(tmp_path: Path) -> None:
    """Else the difference of two answers would be the exact difference of two vectors."""
    one, other = party(tmp_path / "1", np.arange(5.0)), party(tmp_path / "2", np.arange(5.0)[::-1])
    assert one.secret.derived("x") == other.secret.derived("x")
    wide = replace(NOISE, scale=1e4)  # two draws are alike by chance with probability below 1e-20
    assert noise_in(one, noise=wide) != noise_in(other, noise=wide)
    assert noise_in(one, noise=wide) == noise_in(party(tmp_path / "3", np.arange(5.0)), noise=wide)


def test_another_run_request_or_client_never_has_the_same_noise(tmp_path: Path) -> None:
    inside, wide = party(tmp_path), replace(NOISE, scale=1e4)
    found = [
        noise_in(inside, noise=wide),
        noise_in(inside, noise=wide, run="1" * 32),
        noise_in(inside, noise=wide, step=1),
        noise_in(inside, noise=wide, query=TopVotes(2, CANDIDATES, 1)),
        noise_in(party(tmp_path / "b", name="b"), noise=wide),
    ]
    assert len({tuple(noise) for noise in found}) == len(found)


@dataclass(frozen=True)
class Chances(Query):
    """Sends what it draws."""

    name: ClassVar[str] = "chances"
    rate: float = 1.0

    @property
    def blocks(self) -> dict[str, int]:
        return {"drawn": 4}

    @property
    def scored(self) -> Any:
        return ht.Search(), CANDIDATES

    @property
    def bound(self) -> Bound:
        return Ball(1 << 20, 4, self.rate)

    def answer(self, party: Party) -> Any:
        return (words(party.randomness, 4) >> np.uint64(46)).astype(np.int64)


def test_choices_and_coins_are_repeated_too(tmp_path: Path) -> None:
    inside = party(tmp_path)
    sent = [release.contribution(Chances(0.5), inside, QUERY_PARTS, True, bytes([at])) for at in range(40)]
    again = [release.contribution(Chances(0.5), inside, QUERY_PARTS, True, bytes([at])) for at in range(40)]
    assert np.array_equal(sent, again)
    assert len({tuple(vector) for vector in sent}) > 2
    assert 0 < sum(not vector.any() for vector in sent) < 40  # both sides of the coin, but for a chance of 2^-39


QUERY_PARTS = request().parts


def test_parts_of_a_client_draw_for_themselves(tmp_path: Path) -> None:
    inside = party(tmp_path)
    drawn = {words(replace(inside, part=part).drawn_for("answer", b"r"), 1).item() for part in ("", "0 of 2", "1 of 2")}
    assert len(drawn) == 3


@pytest.mark.parametrize("where", ["shares", "input"])
def test_masked_inputs_are_repeated_when_a_machine_is_put_back_between_keys_and_input(
    tmp_path: Path, where: str
) -> None:
    """Masks were agreed on before: only the same vector and noise under them tell nothing new. Shares are the same,
    too: others would be a second message under the same keys."""
    wire = Wire(tmp_path / "run", clients=3, policy=ht.Policy(epsilon=1.0))
    repeated = []

    def tamper(trip: str, node: str, content: bytes, is_answer: bool) -> bytes:
        if trip == where and node == wire.nodes[0] and not is_answer:
            state, home = wire.states[node], wire.home / "machine-0"

            def answer() -> bytes:
                return wire.endpoint(node).reply(content, state)[0]

            repeated.extend(twice(home, answer))
        return content

    wire.tamper = tamper
    wire.tune(seal=ht.Masked(dropouts=0.0))
    first, again = repeated
    assert first == again
    inputs = [seen.answer for seen in wire.seen if seen.node == wire.nodes[0] and trip_of(seen.letter) == where]
    assert inputs == [first]


def test_the_secret_is_in_no_message(tmp_path: Path) -> None:
    wire = Wire(tmp_path / "run", clients=3, policy=ht.Policy(epsilon=1.0))
    wire.tune(seal=ht.Masked(dropouts=0.0))
    for at in range(3):
        text = (wire.home / f"machine-{at}" / "clients" / wire.names[at] / "secret.key").read_text().split("\n")[1]
        carried = b"".join(seen.letter + seen.answer for seen in wire.seen) + b"".join(wire.states.values())
        assert text.encode() not in carried
        assert bytes.fromhex(text) not in carried


def test_the_noise_does_not_depend_on_the_roster_beyond_its_scale(tmp_path: Path) -> None:
    """The request names the roster: clients of another one draw other noise."""
    inside, wide = party(tmp_path), replace(NOISE, scale=1e4)
    other = Roster(("a", "c"))
    assert noise_in(inside, noise=wide) != noise_in(inside, noise=wide, roster=other.digest())
