"""A request's part for nodes, who know no queries: clients refuse one that says anything else than their query."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.federation.nodes.test_task import QUERY, SEAL, request

import hushtune as ht
from hushtune.client.request import Request
from hushtune.client.search.base import Search
from hushtune.client.sheet import Sheet
from hushtune.core.errors import HushtuneError, WireError
from hushtune.core.wire import pack, unpack
from hushtune.methods.combine.tallies import ConfigSums
from hushtune.methods.propose_test.method import CandidateScores
from hushtune.methods.vote.ballots import Approvals, GradedVotes, TopVotes
from hushtune.privacy.bounds import AtMost, Ball, Box, KHot, Scores, Tally
from hushtune.privacy.bounds.codec import bound_from_json, bound_to_json
from hushtune.seals.forms import Form


def changed(**fields: Any) -> bytes:
    header, _ = unpack(request().to_bytes())
    return pack(header | fields)


def checked(**fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = unpack(request().to_bytes())[0]["checked"]
    return found | fields


def test_it_says_what_the_request_says() -> None:
    asked, sheet = request(), Sheet.from_bytes(request().to_bytes())
    assert (sheet.run, sheet.step, sheet.roster) == (asked.run, asked.step, asked.roster)
    assert (sheet.seal, sheet.noise, sheet.form) == (SEAL, asked.noise, None)
    assert (sheet.voters, sheet.bound, sheet.blocks) == (1, QUERY.bound, {"votes": 5})


def test_no_query_need_be_known() -> None:
    assert Sheet.from_bytes(changed(query={"query": "of somebody else's", "version": 9})).bound == QUERY.bound


def test_clients_refuse_what_their_query_is_not_bound_by() -> None:
    for other in (
        checked(bound=bound_to_json(KHot(3, 5))),
        checked(bound=bound_to_json(AtMost(2, 5))),
        checked(bound=bound_to_json(replace(QUERY.bound, tests=1))),
        checked(blocks={"votes": 4, "others": 1}),
        checked(added=[0, 0, 0, 0, 9]),
        checked(more=1),
        None,
    ):
        with pytest.raises(WireError, match="must have nodes check what its query is bound by"):
            Request.from_bytes(changed(checked=other))
    for bound in ({"k": 2.0}, {"length": 5.0}, {"tests": False}):  # equal to Python, another thing to whoever counts
        with pytest.raises(WireError, match="must have nodes check"):
            Request.from_bytes(changed(checked=checked(bound=bound_to_json(QUERY.bound) | bound)))
    masked = replace(request(), seal=ht.Masked(), noise=ht.Masked().noise(3.0)).to_bytes()
    assert unpack(masked)[0]["checked"] is None
    assert Request.from_bytes(masked).seal == ht.Masked()


def test_nodes_add_what_clients_were_told_and_nothing_else() -> None:
    query = TopVotes(2, QUERY.candidates, 0, tests=1, added=(1, 0, 2**40, 0, 3))
    asked = replace(request(), query=query, privacy=None, events=(), noise=SEAL.noise(0.0))
    assert Sheet.from_bytes(asked.to_bytes()).added == query.added
    assert Request.from_bytes(asked.to_bytes()) == asked
    header, _ = unpack(asked.to_bytes())
    for added in ([], [1, 0, 2**40, 0, 4], [1, 0, 2**40, 0, 3.0], [1, 0, 2**40, False, 3]):
        with pytest.raises(WireError, match="must have nodes check"):
            Request.from_bytes(pack(header | {"checked": header["checked"] | {"added": added}}))


WRONG = [3, [1], [0] * 6, [0, 0, 0, 0, -1], [0, 0, 0, 0, 2**40 + 1], [0.0] * 5, [True] * 5, ["0"] * 5]


@pytest.mark.parametrize("added", [None, *WRONG], ids=str)
def test_nodes_add_one_whole_number_for_each_entry_that_is_asked_about(added: Any) -> None:
    query = TopVotes(2, QUERY.candidates, 0, tests=1)
    header, _ = unpack(replace(request(), query=query).to_bytes())
    with pytest.raises(HushtuneError, match="public scores"):
        Sheet.from_bytes(pack(header | {"checked": header["checked"] | {"added": added}}))
    opened = unpack(request().to_bytes())[0]
    with pytest.raises(HushtuneError, match="added where only a winner is asked for"):
        Sheet.from_bytes(pack(opened | {"checked": opened["checked"] | {"added": [0] * 5}}))


@pytest.mark.parametrize("added", WRONG[1:], ids=str)
def test_clients_refuse_what_nodes_could_not_add_before_anything_is_charged(added: Any) -> None:
    for query in (
        TopVotes(2, QUERY.candidates, 0, tests=1),
        Approvals(2, 0.1, QUERY.candidates, 0, tests=1),
        GradedVotes(0.5, 3, QUERY.candidates, 0),
        CandidateScores(QUERY.candidates, 0, (0.0, 1.0), 1, 1024, only_max=True),
    ):
        asked = replace(request(), query=query, privacy=None, events=(), noise=SEAL.noise(0.0))
        header, _ = unpack(asked.to_bytes())
        both = {"query": header["query"] | {"added": added}, "checked": header["checked"] | {"added": added}}
        with pytest.raises(HushtuneError, match="public scores"):
            Request.from_bytes(pack(header | both))
    for other in (TopVotes(2, QUERY.candidates, 0), CandidateScores(QUERY.candidates, 0, (0.0, 1.0), 1, 1024)):
        with pytest.raises(ht.SettingError, match="added where only a winner is asked for"):
            replace(other, added=(0,) * 5)


def test_what_is_added_is_part_of_the_question_that_a_client_answers() -> None:
    query = TopVotes(2, QUERY.candidates, 0, tests=1)
    asked = [replace(request(), query=replace(query, added=added)) for added in ((), (0,) * 5, (1, 0, 0, 0, 0))]
    assert len({one.question for one in asked}) == len({one.identity for one in asked}) == 3


def test_clients_refuse_the_same_parts_in_another_order() -> None:
    """Nodes take from the order where in the vector a part is: in another one they would open another part."""
    query = ConfigSums(Search(), QUERY.candidates, (0.0, 1.0), 0.15, 4, "log", 1024, False, 0.0, ())
    honest = replace(request(), query=query, form=Form("sums"), noise=SEAL.noise(0.0), privacy=None, events=())
    header, _ = unpack(honest.to_bytes())
    blocks = header["checked"]["blocks"]
    assert Request.from_bytes(pack(header)) == honest
    header["checked"]["blocks"] = dict(reversed(blocks.items()))
    assert header["checked"]["blocks"] == blocks
    with pytest.raises(WireError, match="must have nodes check"):
        Request.from_bytes(pack(header))


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "other"},
        {"seal": None},
        {"seal": ht.Masked().to_json()},
        {"checked": None},
        {"checked": 3},
        {"checked": checked(bound=None)},
        {"checked": checked(bound={"kind": "Huge"})},
        {"checked": checked(bound={"kind": "KHot", "k": 2})},
        {"checked": checked(bound={"kind": "KHot", "k": 9, "length": 5})},
        {"checked": checked(blocks=None)},
        {"checked": checked(blocks={})},
        {"checked": checked(blocks={"votes": 4})},
        {"checked": checked(blocks={"votes": 6, "less": -1})},
        {"checked": checked(blocks={"votes": 5.0})},
        {"run": "short"},
        {"run": 3},
        {"step": True},
        {"step": "0"},
        {"roster": None},
        {"voters": 0},
        {"voters": 2**30},
        {"scale": "3"},
        {"scale": True},
        {"scale": -1.0},
        {"form": {"block": "nothing"}},
    ],
    ids=str,
)
def test_what_says_nothing_to_nodes_is_refused(fields: dict[str, Any]) -> None:
    if "seal" in fields and fields["seal"] is not None:
        fields = fields | {"checked": None}
    with pytest.raises(HushtuneError):
        Sheet.from_bytes(changed(**fields))


@pytest.mark.parametrize(
    "bound",
    [KHot(2, 5), AtMost(2, 5, 1), Scores(3, 2, 15, 15, True), Box(9, 3, (1, 2)), Tally(4, 2, 1, 3, 2), Ball(9, 4, 0.5)],
    ids=str,
)
def test_bounds_survive(bound: Any) -> None:
    assert bound_from_json(bound_to_json(bound)) == bound


def test_bounds_of_others_are_none_of_ours() -> None:
    class KHot(AtMost):  # the name alone does not make it one
        pass

    assert bound_to_json(KHot(1, 2)) is None
