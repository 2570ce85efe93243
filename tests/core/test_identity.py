from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hushtune as ht
from hushtune.core.identity import Identity, verified

ONE, OTHER = Identity(bytes(range(32))), Identity(bytes(range(1, 33)))


@given(st.binary(max_size=200), st.data())
def test_a_signature_is_of_one_key_and_one_message(message: bytes, data: st.DataObject) -> None:
    signature = ONE.sign(message)
    assert len(signature) == 64
    assert verified(ONE.public, signature, message)
    assert not verified(OTHER.public, signature, message)
    assert not verified(ONE.public, signature, message + b"\0")
    at, bit = data.draw(st.integers(0, 63)), data.draw(st.integers(0, 7))
    changed = bytearray(signature)
    changed[at] ^= 1 << bit
    assert not verified(ONE.public, bytes(changed), message)


@pytest.mark.parametrize("signature", [b"", b"\0" * 63, b"\0" * 64, b"\0" * 65])
@pytest.mark.parametrize("public", [b"", b"\0" * 31, b"\xff" * 32, ONE.public])
def test_what_is_no_key_or_no_signature_verifies_nothing_and_raises_nothing(public: bytes, signature: bytes) -> None:
    assert not verified(public, signature, b"message")


def test_a_signature_agrees_with_rfc_8032() -> None:
    """Section 7.1, test 2."""
    identity = Identity(bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"))
    assert identity.public.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    assert identity.sign(b"\x72").hex() == (
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )


def test_the_secret_is_not_shown() -> None:
    assert ONE.secret.hex() not in repr(ONE)
    assert repr(ONE.secret) not in repr(ONE)
    assert len({Identity.new().secret for _ in range(20)}) == 20


def test_a_file_is_its_owners_alone_and_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "a.key"
    before = os.umask(0)
    try:
        ONE.save(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Identity.load(path) == ONE
    with pytest.raises(ht.SettingError, match=r"a\.key exists already; an identity is never overwritten"):
        OTHER.save(path)
    assert Identity.load(path) == ONE


@pytest.mark.parametrize(
    "content", [b"", b"one line", b"x\nnot hex\n", b"x\n" + b"00" * 31, b"x\n" + b"00" * 33, b"\xff"]
)
def test_another_file_is_refused_without_showing_what_it_holds(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.key"
    path.write_bytes(content)
    with pytest.raises(ht.SettingError) as caught:
        Identity.load(path)
    assert str(caught.value) == f"{path} must be a file made by `hushtune identity new`"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ht.SettingError, match=r"a\.key cannot be read: No such file or directory"):
        Identity.load(tmp_path / "a.key")
