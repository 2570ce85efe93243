"""Envelopes open for their node, run, request, client and submission, and for nothing else."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.seals.quorum.room import Room, seeded

from hushtune.core.errors import WireError
from hushtune.core.identity import verified
from hushtune.core.randomness import SimulatedRandomness
from hushtune.core.wire import pack
from hushtune.privacy.bounds import KHot
from hushtune.seals.quorum import envelopes
from hushtune.seals.quorum.envelopes import (
    ENVELOPE_BYTES,
    PUBLIC_BYTES,
    Delivery,
    NodeKey,
    Submission,
    about,
    sealed,
    submitted,
)
from hushtune.seals.quorum.field import SMALL
from hushtune.seals.quorum.layout import layout_of
from hushtune.seals.quorum.sharing import crowd, deal, received, value_at

KEYS = [NodeKey(bytes([at]) * 96) for at in (1, 2, 3)]
PUBLICS = [key.public for key in KEYS]
CONTENTS = [b"a first content", b"a second content", b"a third content"]
ABOUT = about("run", b"request", "client")
SENT = submitted(CONTENTS, PUBLICS, ABOUT).signed(seeded("client"), ABOUT)


def is_signed(delivery: Delivery, concerning: bytes = ABOUT) -> bool:
    return verified(seeded("client").public, delivery.signature, delivery.signed_part(concerning))


@pytest.mark.parametrize("node", [1, 2, 3])
def test_an_envelope_opens_for_its_node(node: int) -> None:
    delivery = SENT.delivery(node)
    assert delivery.opened(KEYS[node - 1], node, ABOUT) == CONTENTS[node - 1]
    assert Delivery.from_bytes(delivery.to_bytes(), 3) == delivery
    assert Submission.from_bytes(SENT.to_bytes(), 3) == SENT
    assert is_signed(delivery)


@pytest.mark.parametrize(
    "other", [about("other", b"request", "client"), about("run", b"other", "client"), about("run", b"request", "other")]
)
def test_an_envelope_of_another_run_request_or_client_does_not_open(other: bytes) -> None:
    for node, key in enumerate(KEYS, 1):
        with pytest.raises(WireError, match="does not open"):
            SENT.delivery(node).opened(key, node, other)
    assert not is_signed(SENT.delivery(1), other)


def test_an_envelope_of_another_node_does_not_open() -> None:
    for node in (1, 2, 3):
        for other in {1, 2, 3} - {node}:
            with pytest.raises(WireError):
                SENT.delivery(node).opened(KEYS[other - 1], node, ABOUT)
            with pytest.raises(WireError):
                SENT.delivery(node).opened(KEYS[node - 1], other, ABOUT)
            swapped = replace(SENT, envelopes=(SENT.envelopes[other - 1],) * 3).delivery(node)
            with pytest.raises(WireError, match="does not open"):
                swapped.opened(KEYS[node - 1], node, ABOUT)


def test_two_submissions_of_one_client_do_not_mix() -> None:
    other = submitted([b"another", *CONTENTS[1:]], PUBLICS, ABOUT)
    mixed = replace(SENT, envelopes=(SENT.envelopes[0], *other.envelopes[1:]))
    assert mixed.delivery(1).opened(KEYS[0], 1, ABOUT) == CONTENTS[0]
    for node in (2, 3):  # the same content, but of another submission
        with pytest.raises(WireError, match="does not open"):
            mixed.delivery(node).opened(KEYS[node - 1], node, ABOUT)
        assert not is_signed(mixed.delivery(node))
    with pytest.raises(WireError, match="is not the one that its submission names"):
        replace(SENT.delivery(2), envelope=other.envelopes[1]).opened(KEYS[1], 2, ABOUT)
    assert other.delivery(1).root != SENT.delivery(1).root


def test_a_content_that_is_not_what_the_digests_say_is_refused() -> None:
    false = submitted(CONTENTS, PUBLICS, ABOUT)
    digests = (bytes(32), *false.digests[1:])
    root = Delivery(digests, (), b"", b"").root
    envelope = sealed(CONTENTS[0], PUBLICS[0], b"hushtune quorum envelope \x01" + ABOUT + root)
    with pytest.raises(WireError, match="content is not what its submission says"):
        Submission(digests, (envelope, *false.envelopes[1:])).delivery(1).opened(KEYS[0], 1, ABOUT)


def test_every_byte_of_digests_and_envelopes_is_signed() -> None:
    for at in range(32 * 3):
        for part in ("digests", "carried"):
            pieces = bytearray(b"".join(getattr(SENT.delivery(1), part)))
            pieces[at] ^= 1
            split = tuple(bytes(pieces[begin : begin + 32]) for begin in (0, 32, 64))
            assert not is_signed(replace(SENT.delivery(1), **{part: split}))
    for node, envelope in enumerate(SENT.envelopes, 1):
        for at in range(0, len(envelope), 97):
            other = bytearray(envelope)
            other[at] ^= 1
            envelopes = (*SENT.envelopes[: node - 1], bytes(other), *SENT.envelopes[node:])
            mixed = replace(SENT, envelopes=envelopes)
            assert not any(is_signed(mixed.delivery(one)) for one in (1, 2, 3))
            with pytest.raises(WireError):
                mixed.delivery(node).opened(KEYS[node - 1], node, ABOUT)


@pytest.mark.parametrize("envelope", [b"", b"x", bytes(1000), bytes(1120), bytes(1136), bytes(5000)])
def test_what_is_no_envelope_does_not_open(envelope: bytes) -> None:
    with pytest.raises(WireError, match="does not open"):
        KEYS[0].opened(envelope, b"")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"H",
        pack({"kind": "submission"}),
        pack({"kind": "submission"}, bytes(96), b"", b"", b""),
        bytes(range(1, 100)),
    ],
)
def test_what_is_no_submission_or_delivery_is_refused(message: bytes) -> None:
    with pytest.raises(WireError):
        Submission.from_bytes(message + pack({}), 3)
    with pytest.raises(WireError):
        Delivery.from_bytes(message, 3)
    with pytest.raises(WireError):
        Delivery.from_bytes(SENT.delivery(1).to_bytes(), 5)
    with pytest.raises(WireError):
        Submission.from_bytes(SENT.to_bytes(), 5)


@pytest.mark.parametrize(
    "public",
    [
        b"",
        b"x" * 31,
        b"x" * 32,
        bytes(PUBLIC_BYTES),
        b"\xff" * PUBLIC_BYTES,
        PUBLICS[0][:-1],
        PUBLICS[0] + b"x",
        PUBLICS[0][:-32] + bytes(32),
    ],
)
def test_a_key_that_is_none_is_refused(public: bytes) -> None:
    with pytest.raises(WireError, match="a node's key must be"):
        sealed(b"content", public, b"")


def test_a_submission_is_small() -> None:
    layout = layout_of(KHot(5, 100))
    contents = deal(SMALL, crowd(3), np.zeros(layout.size, np.uint64), SimulatedRandomness(0, "dealer"))
    sent = submitted(contents, PUBLICS, ABOUT).signed(seeded("client"), ABOUT)
    assert len(sent.to_bytes()) < 8000


def test_reprs_show_no_secret_and_no_content(tmp_path: Path) -> None:
    room = Room(tmp_path)
    shown = repr([KEYS, SENT, SENT.delivery(1), room.read(b"a request"), list(room.nodes.values())])
    assert "envelope=" not in shown
    assert "envelopes=" not in shown
    for secret in (KEYS[0].secret, *SENT.envelopes):
        assert repr(secret)[2:40] not in shown
        assert secret[:16].hex() not in shown


def test_a_node_that_guesses_a_ballot_cannot_tell_whether_it_is_right() -> None:
    """With its own share and a ballot, a node can compute every other share of three: digests must not confirm it."""
    among, ballot = crowd(3), np.array([0, 1, 0, 1, 0], np.uint64)
    contents = deal(SMALL, among, ballot, SimulatedRandomness(5, "dealer"))
    sent = submitted(contents, PUBLICS, ABOUT)
    shares = {at: received(SMALL, among, at, content, 5) for at, content in enumerate(contents, 1)}
    for node, other in ((1, 2), (1, 3), (2, 3), (3, 2)):
        guessed = SMALL.to_bytes(value_at(SMALL, {0: ballot, node: shares[node]}, other))
        assert guessed == contents[other - 1]  # the guess is right
        told = sent.delivery(node)
        for digest in (*told.digests, *told.carried):
            assert digest != hashlib.sha256(bytes([other]) + guessed).digest()
    again = submitted(contents, PUBLICS, ABOUT)
    assert not set(again.digests) & set(sent.digests)  # what is hashed holds 32 bytes that nobody can guess
    assert len(sent.envelopes[0]) == len(contents[0]) + ENVELOPE_BYTES


def test_a_clients_own_source_gives_the_same_salts_again() -> None:
    first, second = (submitted(CONTENTS, PUBLICS, ABOUT, SimulatedRandomness(1, "own")) for _ in range(2))
    assert first.digests == second.digests


def test_a_submission_that_no_node_can_be_handed_is_its_own_clients_affair(monkeypatch: pytest.MonkeyPatch) -> None:
    for signature in (b"x", b"x" * 63, b"x" * 65):
        with pytest.raises(WireError, match="a signature must have 64 bytes"):
            Submission.from_bytes(replace(SENT, signature=signature).to_bytes(), 3)
    monkeypatch.setattr(envelopes, "LONGEST_ENVELOPE", len(SENT.envelopes[0]))
    with pytest.raises(WireError, match="an envelope must have at most"):
        Submission.from_bytes(SENT.to_bytes(), 3)  # the second is longer
