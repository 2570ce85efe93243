"""Certificates: only the node that a roster pins can make one that passes for its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from tests.seals.quorum.room import seeded

from hushtune.core.errors import RefusedError
from hushtune.core.roster import NodeEntry
from hushtune.federation.nodes.certificate import VALID, check, issued

NODE = NodeEntry("node-1", seeded("node-1").public, "127.0.0.1:7000")
NOW = datetime.now(UTC)


def der(pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERT") :]).public_bytes(Encoding.DER)


def made(signer: Any, *names: str, days: float = 7, begins: datetime = NOW - timedelta(hours=1)) -> bytes:
    """A certificate, not made by us."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hushtune:node:node-1")]))
        .issuer_name(x509.Name([]))
        .public_key(signer.public_key())
        .serial_number(1)
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=days))
    )
    if names:
        texts = [x509.UniformResourceIdentifier(name) for name in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(texts), critical=False)
    algorithm = None if isinstance(signer, Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(signer, algorithm).public_bytes(Encoding.DER)


def own() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(seeded("node-1").secret)


def test_a_nodes_own_certificate_passes_for_some_days_and_holds_no_identity() -> None:
    pem = issued(seeded("node-1"), "node-1", NOW)
    for when in (NOW, NOW - timedelta(minutes=50), NOW + VALID - timedelta(minutes=1)):
        check(der(pem), NODE, when)
    key: Any = load_pem_private_key(pem, None)
    found = x509.load_der_x509_certificate(der(pem))
    assert key.public_key() == found.public_key() != own().public_key()
    assert seeded("node-1").secret not in key.private_bytes_raw()
    assert der(issued(seeded("node-1"), "node-1")) != der(pem)  # a key of its own each time


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (b"", "none that its key in the roster has signed"),
        (b"garbage", "none that its key in the roster has signed"),
        (der(issued(seeded("stranger"), "node-1")), "none that its key in the roster has signed"),
        (der(issued(seeded("node-2"), "node-2")), "none that its key in the roster has signed"),
        (made(Ed25519PrivateKey.generate(), "hushtune:node:node-1"), "none that its key in the roster has signed"),
        (made(ec.generate_private_key(ec.SECP256R1()), "hushtune:node:node-1"), "none that its key"),
        (der(issued(seeded("node-1"), "node-2")), "got another node's"),  # by a key that two nodes may have had
        (made(own()), "none that its key"),  # signed for something else
        (made(own(), "hushtune:client:node-1"), "got another node's"),
        (made(own(), "hushtune:node:node-1", "hushtune:node:node-2"), "got another node's"),
        (made(own(), "hushtune:node:node-1", days=30), "for 7 days at most"),
        (made(own(), "hushtune:node:node-1", begins=NOW - timedelta(days=8)), "must be valid now"),
        (made(own(), "hushtune:node:node-1", begins=NOW + timedelta(hours=1)), "must be valid now"),
    ],
)
def test_anything_else_is_refused(shown: bytes, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        check(shown, NODE)


def test_it_expires() -> None:
    shown = der(issued(seeded("node-1"), "node-1", NOW))
    for when in (NOW + VALID + timedelta(minutes=1), NOW - timedelta(minutes=61)):
        with pytest.raises(RefusedError, match="look at both machines' clocks"):
            check(shown, NODE, when)


def test_no_changed_byte_passes() -> None:
    """Of what is signed, and of the signature; what stands between them only says how it is signed."""
    shown = der(issued(seeded("node-1"), "node-1"))
    signed = x509.load_der_x509_certificate(shown).tbs_certificate_bytes
    begins = shown.index(signed)
    for at in (*range(begins, begins + len(signed)), *range(len(shown) - 64, len(shown))):
        changed = bytearray(shown)
        changed[at] ^= 1 << at % 8
        with pytest.raises(RefusedError):
            check(bytes(changed), NODE)
