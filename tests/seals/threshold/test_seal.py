"""The threshold seal: all parties or nothing, one answer for each message, and what does not follow it is refused."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.seals.threshold.harness import RUN, Room

import hushtune as ht
from hushtune.core.errors import AbortedError, RefusedError, WireError
from hushtune.core.roster import Roster
from hushtune.core.wire import pack, unpack
from hushtune.privacy.bounds import KHot
from hushtune.seals.ends import Due
from hushtune.seals.forms import Form
from hushtune.seals.threshold.circuits import MOST_OPENINGS, PARAMETERS, segments
from hushtune.seals.threshold.process import Sidecar
from hushtune.testing.conversation import Conversation

pytestmark = pytest.mark.mhe

Make = Callable[..., Room]
DENSE = Form("counts", at_least=4)
MEANS = Form("sums", over="counts", least=4)
COUNTS = [{"counts": [4, 3, 0, 4, 1]}, {"counts": [4, 0, 0, 0, 2]}, {"counts": [4, 0, 0, 0, 1]}]
SUMS = [
    {"counts": [2, 9], "sums": [1, 9, 2, 3]},
    {"counts": [2, 0], "sums": [2, 0, 0, 0]},
    {"counts": [1, 5], "sums": [1, 5, 1, 0]},
]


def test_comparison_and_quotient_share_one_set_of_keys(room: Make) -> None:
    """Counts at MinPts - 1, MinPts and the maximum; then quotients of another query, and the sums themselves."""
    here = room(3)
    assert np.rint(here.open(DENSE, COUNTS, 12)).tolist() == [1, 0, 0, 1, 1]
    trips = [name for name, number, *_ in here.sent if number == 1]
    assert trips == ["keys", "relin", "input", "decrypt"]
    means = here.open(MEANS, SUMS, 30)
    assert means == pytest.approx([4 / 5, 1.0, 3 / 5, 3 / 14], abs=5e-3)
    assert [name for name, number, *_ in here.sent if number == 1][4:] == ["input", "decrypt"]
    whole = here.open(None, COUNTS, 12, last=True)
    assert np.rint(whole).tolist() == [12, 3, 0, 4, 4]
    assert here.reserved == 3
    assert all(end.done for end in here.ends)


def test_a_plain_sum_needs_no_relinearisation_key(room: Make) -> None:
    here = room(2)
    assert np.rint(here.open(None, COUNTS[:2], 12)).tolist() == [8, 3, 0, 4, 3]
    assert [name for name, number, *_ in here.sent if number == 1] == ["keys", "input", "decrypt"]
    assert np.rint(here.open(DENSE, COUNTS[:2], 8)).tolist() == [1, 0, 0, 1, 0]  # with keys made anew
    assert [name for name, number, *_ in here.sent if number == 1][3:] == ["keys", "relin", "input", "decrypt"]


def test_a_plain_sum_takes_the_messages_and_bytes_that_are_planned() -> None:
    talk = Conversation(ht.Threshold(ring=2**14), Roster(("a", "b", "c")))
    talk.open({name: np.arange(5) for name in talk.roster.ids}, 12)
    messages, sent = talk.seal.traffic(3, KHot(1, 5), 1, 12, len(b"request"), False)
    assert messages == 2 * talk.trips
    assert talk.bytes / 3 == pytest.approx(sent, rel=0.02)


def test_all_but_one_share_decrypt_nothing(room: Make) -> None:
    here = room(3)
    here.open(None, [{"votes": [1, 0, 1]}] * 3, 3)
    shares = [unpack(reply)[1][0] for name, _, _, reply in here.sent if name == "decrypt"]
    assert here.server._keys is not None
    evaluator = here.server._keys.evaluator
    finer = here.circuit(None, 3, 3, 3).finer
    assert np.rint(np.frombuffer(evaluator.call("fuse", *shares, length=3)[0]) / finer).tolist() == [3, 0, 3]
    for without in range(3):
        some = shares[:without] + shares[without + 1 :]
        try:
            found = np.frombuffer(evaluator.call("fuse", *some, length=3)[0]) / finer
        except RefusedError:
            continue
        assert np.abs(found - [3, 0, 3]).min() > 10  # the missing share is uniform modulo something huge


@pytest.mark.parametrize("trip", ["keys", "relin", "input", "decrypt"])
def test_a_party_that_drops_out_aborts_with_nothing_opened(room: Make, trip: str) -> None:
    here = room(3, fail=lambda name, number: name == trip and number == 2)
    with pytest.raises(AbortedError, match=f"needs all 3 clients, but lost client-2 in trip '{trip}'"):
        here.open(DENSE, COUNTS, 12)
    assert here.reserved == (trip in ("input", "decrypt"))


@pytest.mark.parametrize("is_reply", [False, True])
@pytest.mark.parametrize("trip", ["keys", "input", "decrypt"])
def test_changed_bytes_are_found_out(room: Make, trip: str, is_reply: bool) -> None:
    def flip(name: str, number: int, content: bytes, reply: bool) -> bytes:
        if name != trip or number != 1 or reply != is_reply:
            return content
        changed = bytearray(content)
        changed[-1 if name == "keys" else len(changed) // 2] ^= 1  # the first message is little more than its header
        return bytes(changed)

    here = room(2, tamper=flip)
    with pytest.raises(AbortedError, match="changed on its way"):
        here.open(DENSE, COUNTS[:2], 8)


def test_a_message_is_answered_once_and_the_same_again(room: Make) -> None:
    here = room(2)
    here.open(DENSE, COUNTS[:2], 8)
    for name, number, message, reply in here.sent:
        if name in ("relin", "decrypt"):
            assert here.ends[number].step(message, None) == reply
    (message,) = (m for name, number, m, _ in here.sent if name == "decrypt" and number == 0)
    header, parts = unpack(message)
    other = pack({**header, "last": True}, *parts)
    with pytest.raises(RefusedError, match="answered already, for another message"):
        here.ends[0].step(other, None)
    with pytest.raises(RefusedError, match="no input in round 7"):
        here.ends[0].step(pack({**header, "round": 7}, *parts), None)


def test_an_input_is_given_again_without_asking_for_it_again(room: Make) -> None:
    here = room(2)
    here.open(DENSE, COUNTS[:2], 8)
    (message, reply) = next((m, r) for name, number, m, r in here.sent if name == "input" and number == 1)
    due = here.due(DENSE, COUNTS[1], 8)
    assert here.ends[1].step(message, Due(due.form, due.blocks, due.largest)) == reply


def test_a_set_of_keys_opens_only_so_much(room: Make) -> None:
    here = room(2)
    for _ in range(MOST_OPENINGS):
        here.open(None, COUNTS[:2], 12)
    here.server._opened = 0  # a server that does not keep count
    with pytest.raises(AbortedError, match=f"at most {MOST_OPENINGS} ciphertexts are decrypted"):
        here.open(None, COUNTS[:2], 12)
    again = room(2)
    for _ in range(MOST_OPENINGS + 1):  # an honest one makes new keys
        assert np.rint(again.open(None, COUNTS[:2], 12)).tolist() == [8, 3, 0, 4, 3]


def test_mismatched_parameters_are_refused(room: Make) -> None:
    small, large = (ht.Threshold(ring=ring, smudging=0.0).circuit(None, 2, 8, 5) for ring in sorted(PARAMETERS))
    here = room(2, circuits=lambda *asked: small)
    here.open(None, COUNTS[:2], 8)
    here.circuit = lambda *asked: large  # what clients derive from the next request
    here.server._circuits = lambda *asked: (small, 0.0)
    with pytest.raises(AbortedError, match="other parameters than the keys were made for"):
        here.open(None, COUNTS[:2], 8)


def test_a_comparison_with_refreshes_goes_through_the_protocol(room: Make) -> None:
    here = room(2)
    blocks = [{"counts": [999, 500, 0, 1000, 700]}, {"counts": [0, 500, 0, 1000, 301]}]
    assert np.rint(here.open(Form("counts", at_least=1_000), blocks, 2_000)).tolist() == [0, 1, 0, 1, 1]
    refreshes = [name for name, number, *_ in here.sent if number == 1].count("refresh")
    assert refreshes == len(segments(here.circuit(Form("counts", at_least=1_000), 2, 2_000, 5))) - 1 > 0


def test_a_sidecar_that_is_killed_loses_its_share(room: Make) -> None:
    here = room(2)
    here.open(None, COUNTS[:2], 8)
    sidecar = here.ends[1]._sidecar
    assert sidecar is not None
    assert sidecar._child is not None
    os.kill(sidecar._child.pid, signal.SIGKILL)
    with pytest.raises(
        AbortedError, match="lost client-1 in trip 'input': refused: the process that holds the key share"
    ):
        here.open(None, COUNTS[:2], 8)


def test_messages_out_of_order_or_of_another_form_are_refused() -> None:
    client = Room(2).ends[1]
    header: dict[str, Any] = {"kind": "threshold", "run": RUN, "round": 0, "trip": "decrypt", "turn": 0, "last": False}
    with pytest.raises(WireError, match="changed on its way"):
        client.step(pack({**header, "digest": "0"}, b"x"), None)
    with pytest.raises(RefusedError, match="another run"):
        client.step(pack({**header, "run": "b" * 32}, b"x"), None)
    for wrong in ({"trip": "sum"}, {"round": "0"}, {"turn": 99}, {"turn": None}):
        with pytest.raises(WireError, match="must have a trip, a round and a turn"):
            client.step(pack({**header, **wrong}, b"x"), None)
    with pytest.raises(WireError, match="parts, but got 0"):
        client.step(pack(header), None)
    assert "terms" not in repr(client)


def test_a_sidecar_survives_damaged_keys_and_nonsense() -> None:
    """OpenFHE may raise, hang or crash on such bytes: in a process of its own, and as one line here."""
    sidecar = Sidecar.start(vars(PARAMETERS[2**14]), "seed", party=True)
    try:
        with pytest.raises(RefusedError, match="could not do 'joint'"):
            sidecar.call("joint", b"nonsense")
        with pytest.raises(RefusedError, match="could not do 'nothing'"):
            sidecar.call("nothing")
        (public,) = sidecar.call("keys", multiply=False)
        with pytest.raises(RefusedError):
            sidecar.call("joint", public[: len(public) // 2])
    finally:
        sidecar.close()
    with pytest.raises(RefusedError, match="has ended, or does not answer"):
        sidecar.call("keys", multiply=False)


def test_a_sidecar_beside_a_client_is_found_again_and_forgets_when_closed(tmp_path: Path) -> None:
    folder = tmp_path / "mhe" / "run"
    first = Sidecar.beside(folder, vars(PARAMETERS[2**14]), "seed")
    first.call("keep", b"abc", name="x")
    assert (folder.stat().st_mode & 0o77) == 0
    del first  # as when its process ends: one at a time talks to it
    again = Sidecar.found(folder)
    assert again.call("recall", name="x") == [b"abc"]
    again.close()
    assert not folder.exists()
    with pytest.raises(RefusedError, match="key share is lost"):
        Sidecar.found(folder)
