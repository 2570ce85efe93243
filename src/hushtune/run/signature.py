"""Who made a result: result.sig beside result.json, a signature of its exact bytes by the coordinator's identity."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from hushtune.core.errors import SettingError
from hushtune.core.files import replace
from hushtune.core.identity import Identity, verified

FILE = "result.sig"
_SIGNED = b"hushtune result 1\n"  # begins what is signed: no other signature of an identity can pass for one of these


@dataclass(frozen=True)
class Signature:
    """What result.sig holds.

    Args:
        public: the signer's public key, 32 bytes.
        signature: 64 bytes.
    """

    public: bytes
    signature: bytes

    def holds(self, content: bytes) -> bool:
        """Whether the owner of the key signed a result.json of just these bytes.

        Args:
            content: all bytes of the file.
        """
        return verified(self.public, self.signature, _SIGNED + content)


def read(folder: Path) -> Signature | None:
    """The signature in a folder; None if there is none, SettingError if it is damaged."""
    path = folder / FILE
    try:
        raw = json.loads(path.read_text(encoding="ascii"))
        found = Signature(bytes.fromhex(raw["public"]), bytes.fromhex(raw["signature"]))
        if len(found.public) != 32 or len(found.signature) != 64:
            raise ValueError
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SettingError(f"{path} must be a signature that hushtune wrote, but it is damaged") from None
    return found


def put(folder: Path, content: bytes, identity: Identity | None) -> None:
    """Has the folder hold the identity's signature of these bytes, or without an identity no signature of others.

    Args:
        folder: made if it is not there.
        content: all bytes that result.json will have.
        identity: who signs, unless that very signature is there.
    """
    try:
        known = read(folder)
    except SettingError:
        known = None
    kept = known is not None and known.holds(content)
    if identity is None:
        if not kept:
            (folder / FILE).unlink(missing_ok=True)
    elif not kept or known is None or known.public != identity.public:
        signed = {"public": identity.public.hex(), "signature": identity.sign(_SIGNED + content).hex()}
        replace(folder / FILE, json.dumps(signed, indent=2) + "\n")


def signer_key(given: str | os.PathLike[str]) -> bytes:
    """The public key that a person names: 64 hex digits, or a file with what `hushtune identity show` prints."""
    text = str(given)
    if not _is_key(text):
        try:
            text = Path(given).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            text = ""
        if not _is_key(text):
            raise SettingError(
                "a signer must be 64 hex digits, or a file that holds what `hushtune identity show` prints, but got "
                f"'{given}'"
            )
    return bytes.fromhex(text)


def _is_key(text: str) -> bool:
    return len(text) == 64 and all(letter in "0123456789abcdef" for letter in text.lower())
