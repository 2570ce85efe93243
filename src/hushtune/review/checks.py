"""What a verification says: claims that were checked, and what was there to compare them with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One claim, whether it holds, and the figures.

    Args:
        claim: in words.
        holds: whether it was found to be so.
        detail: the figures that were compared.
    """

    claim: str
    holds: bool
    detail: str


@dataclass(frozen=True)
class Beside:
    """Something that a result can be compared with.

    Args:
        name: "run.json", "report.html", "result.sig" or "ledger".
        found: whether it was there.
        detail: what was found, or where it was looked for.
    """

    name: str
    found: bool
    detail: str
