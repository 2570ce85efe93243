"""The seals, by name: hushtune's own, and those of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hushtune.core.codec import fields_from_json
from hushtune.core.errors import SettingError, WireError
from hushtune.seals.base import SEAL_CLASSES, Seal
from hushtune.seals.clear import Clear
from hushtune.seals.curator import Curator
from hushtune.seals.ends import Expected
from hushtune.seals.masked.seal import Masked
from hushtune.seals.quorum.seal import Quorum
from hushtune.seals.threshold.seal import Threshold

SEALS: tuple[type[Seal], ...] = (Clear, Curator, Masked, Threshold, Quorum)


def default_seal() -> Seal:
    """What protects contributions if nobody says otherwise."""
    return Masked()


def secret_seal() -> Seal:
    """What keeps sums secret, and answers questions about them, with no server that is trusted."""
    return Quorum()


def seal_from_json(raw: Mapping[str, Any]) -> Seal:
    """The seal that `Seal.to_json` wrote."""
    values = dict(raw)
    kind = SEAL_CLASSES.find(values.pop("name", None))
    known = [field.name for field in fields(kind)]
    for name in values:
        if name not in known:
            raise SettingError(f"seal '{kind.name}' has no field '{name}'; its fields are {known}")
    return kind(**fields_from_json(kind, values))


def expected(header: Mapping[str, Any], parts: list[bytes], message: bytes) -> tuple[type[Seal], Expected]:
    """The seal whose kind a message is of, and what that seal takes it for."""
    kind = header.get("kind")
    seals = (*SEALS, *SEAL_CLASSES.known.values())  # a kind of hushtune's own is nobody else's
    seal = next((seal for seal in seals if seal.kind == kind), None)
    if seal is None:
        raise WireError(f"no seal has messages of kind {str(kind)[:40]!r}")
    return seal, seal.expects(header, parts, message)
