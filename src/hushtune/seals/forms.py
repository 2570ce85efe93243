"""Forms: what of a sum is opened. A seal that computes under encryption opens nothing else; others the sum first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.checks import integer
from hushtune.core.codec import fields_to_json
from hushtune.core.errors import SettingError, WireError


@dataclass(frozen=True)
class Form:
    """One block of a sum as it is, compared with a number, or divided by another block.

    Args:
        block: the block's name.
        at_least: opens only which entries are at least this.
        over: opens only the quotients by this block, whose length divides the first one's; it is repeated.
        least: the smallest that an entry of `over` can be; public.
        step: what all entries of `over` are multiples of; public.
    """

    block: str
    at_least: int | None = None
    over: str | None = None
    least: int | None = None
    step: int = 1

    def __post_init__(self) -> None:
        if self.at_least is not None and self.over is not None:
            raise SettingError("a sum is compared or divided before it is opened, but not both")
        if self.at_least is not None:
            integer("at_least", self.at_least, 1, 2**40)
        if self.over is not None:
            integer("least", self.least, 1, 2**40)
            integer("step", self.step, 1, 2**40)
            if self.least is None or self.least % self.step:
                raise SettingError(f"least must be a multiple of step, but got least={self.least}, step={self.step}")

    def check(self, blocks: Mapping[str, int]) -> None:
        """Refuses blocks that a query does not have."""
        for name in (self.block, self.over):
            if name is not None and name not in blocks:
                raise SettingError(f"the query has the blocks {sorted(blocks)}, but got '{name}'")
        if self.over is not None and blocks[self.block] % blocks[self.over]:
            raise SettingError(f"the length of '{self.block}' must be a multiple of that of '{self.over}'")

    def of(self, blocks: Mapping[str, IntArray]) -> IntArray | FloatArray:
        """The values, from an opened sum; a quotient by 0 or less, which only noise can make, is nan."""
        values = blocks[self.block]
        if self.at_least is not None:
            return np.asarray(values >= self.at_least, dtype=np.int64)
        if self.over is None:
            return values
        below = np.tile(blocks[self.over], len(values) // len(blocks[self.over])).astype(np.float64)
        quotients: FloatArray = np.divide(values, below, out=np.full(len(values), np.nan), where=below > 0)
        return quotients

    def length(self, blocks: Mapping[str, int]) -> int:
        """Of what is opened."""
        return blocks[self.block]

    @property
    def words(self) -> str:
        """What is seen of the block."""
        if self.at_least is not None:
            return f"which of the {self.block} are at least {self.at_least}"
        return f"the {self.block}" + (f" divided by the {self.over}" if self.over is not None else "")

    def to_json(self) -> dict[str, Any]:
        """All fields as plain values, by name."""
        return fields_to_json(self)


def form_from_json(raw: Any) -> Form | None:
    """The form that `to_json` wrote; None: the whole sum."""
    if raw is None:
        return None
    try:
        form = Form(**raw)
    except TypeError:
        raise WireError("a form has unknown or missing fields") from None
    if not isinstance(form.block, str) or not isinstance(form.over, str | None):
        raise WireError("a form must name blocks")
    return form


def in_blocks(blocks: Mapping[str, int], vector: IntArray) -> dict[str, IntArray]:
    """The named parts of one vector, whose lengths `blocks` has."""
    ends = np.cumsum(list(blocks.values()))[:-1]
    return dict(zip(blocks, np.split(vector, ends), strict=True))
