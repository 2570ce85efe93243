from __future__ import annotations

import numpy as np
import pytest

import hushtune as ht
from hushtune.core.identity import Identity
from hushtune.seals.forms import Form
from hushtune.testing.conversation import Conversation

IDS = tuple(f"c{number}" for number in range(6))
VECTORS = {name: np.array([number, -number, 1]) for number, name in enumerate(IDS)}


@pytest.mark.parametrize("seal", [ht.Clear(), ht.Masked()], ids=lambda seal: seal.name)
def test_all_ends_together_open_the_sum_again_and_again(seal: ht.Seal) -> None:
    talk = Conversation(seal, ht.Roster(IDS))
    for last in (False, True):
        before = talk.trips, talk.bytes
        outcome = talk.open(VECTORS, 99, last=last)
        assert outcome.values.tolist() == [15, -15, 6]
        assert (outcome.missing, outcome.late) == ({}, {})
        assert talk.trips > before[0]
        assert talk.bytes > before[1]


def test_pinned_clients_sign() -> None:
    keys = [Identity(bytes([number]) * 32) for number in range(6)]
    roster = ht.Roster(IDS, tuple(key.public for key in keys), bytes(32))
    assert Conversation(ht.Masked(), roster, keys).open(VECTORS, 99).values.tolist() == [15, -15, 6]
    with pytest.raises(ht.RefusedError, match="pins a key for this client that is not its own"):
        Conversation(ht.Masked(), roster, keys[::-1])


def test_a_form_is_asked_for_by_its_blocks() -> None:
    talk = Conversation(ht.Clear(), ht.Roster(IDS))
    outcome = talk.open(VECTORS, 99, form=Form("b"), blocks={"a": 2, "b": 1})
    assert outcome.values.tolist() == [15, -15, 6]  # a seal that computes nothing opens the sum
