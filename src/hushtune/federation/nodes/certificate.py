"""Certificates: a node's identity says for some days that a TLS key speaks for it.

So the process that listens needs neither the identity nor anything else that is worth stealing for longer, and whoever
dials checks what it is shown against the key that its own roster pins: no authority is asked, and no name is looked up.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hushtune.core.errors import RefusedError
from hushtune.core.identity import Identity, verified
from hushtune.core.roster import Id, NodeEntry

VALID = timedelta(days=7)
_APART = timedelta(hours=1)  # by which the clocks of two machines may differ


def issued(identity: Identity, name: Id, now: datetime | None = None) -> bytes:
    """A fresh TLS key and a certificate for it, as PEM.

    Args:
        identity: the node's.
        name: the node's.
        now: when it begins to be valid. Default: now.
    """
    now = now or datetime.now(UTC)
    key = Ed25519PrivateKey.from_private_bytes(os.urandom(32))
    made = (
        x509.CertificateBuilder()
        .subject_name(_nobody())
        .issuer_name(_nobody())
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _APART)
        .not_valid_after(now + VALID)
        .add_extension(_named(name), critical=True)
        .sign(Ed25519PrivateKey.from_private_bytes(identity.secret), None)
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret + made.public_bytes(Encoding.PEM)


def check(shown: bytes, entry: NodeEntry, now: datetime | None = None) -> None:
    """Refuses what is not a certificate of this node, signed by the key that the roster pins, and valid today.

    Args:
        shown: what the other end of a connection has shown (DER).
        entry: the node in the coordinator's own roster.
        now: when it must be valid. Default: now.
    """
    now = now or datetime.now(UTC)
    try:
        found = x509.load_der_x509_certificate(shown)
        signed = verified(entry.key, found.signature, found.tbs_certificate_bytes)
        named = (
            signed and _named(entry.name) == found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except Exception:  # whatever the parser makes of bytes that anybody may send
        signed = named = False
    if not named:
        what = "another node's" if signed else "none that its key in the roster has signed"
        raise RefusedError(f"a certificate of node '{entry.name}' must be shown, but got {what}")
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    if not begins <= now <= ends or ends - begins > VALID + _APART:
        raise RefusedError(
            f"a node's certificate must be valid now, {now:%Y-%m-%d %H:%M} UTC, and for {VALID.days} days at most, but "
            f"got one from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M}: look at both machines' clocks"
        )


def _nobody() -> x509.Name:
    return x509.Name([])


def _named(name: Id) -> x509.SubjectAlternativeName:
    """Whom a certificate is for, and as what: an identity may sign other things too."""
    return x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"hushtune:node:{name}")])
