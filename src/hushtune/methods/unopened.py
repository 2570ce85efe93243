"""A sum that is not opened yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hushtune.client.query import Query
from hushtune.core.errors import SettingError
from hushtune.seals.forms import Form

Open = Callable[[Query, Form], Any]
"""Asks the clients, and opens a form of the sum of their answers."""


@dataclass(frozen=True)
class Unopened:
    """A sum of which a form will be opened, once. Nobody is asked before `open`.

    Seals 'threshold' and 'quorum' compute the form before anything is opened; the others open the whole sum first, as
    the disclosures say.

    Args:
        query: what each privacy unit is asked.
        opener: asks the clients and opens a form of the sum.
        form: what of the sum will be opened; None until a block is chosen.
    """

    query: Query
    opener: Open
    form: Form | None = None

    def __getitem__(self, block: str) -> Unopened:
        """One block of the sum."""
        form = Form(block)
        form.check(self.query.blocks)
        return replace(self, form=form)

    def at_least(self, threshold: int) -> Unopened:
        """1 where an entry is at least the threshold, else 0.

        Args:
            threshold: 1 or more.
        """
        return replace(self, form=replace(self._block(), at_least=threshold))

    def over(self, count: Unopened, least: int, step: int = 1) -> Unopened:
        """Quotients by another block of the same sum, whose entries are multiples of `step` and at least `least`.

        Args:
            count: another block of the same sum, whose length divides this one's.
            least: the smallest that one of its entries can be; public.
            step: what all its entries are multiples of; public.
        """
        if count.query != self.query:
            raise SettingError("a sum is divided by a block of itself")
        form = replace(self._block(), over=count._block().block, least=least, step=step)
        form.check(self.query.blocks)
        return replace(self, form=form)

    def open(self) -> Any:
        """The values: integers, or floats for quotients."""
        return self.opener(self.query, self._block())

    def _block(self) -> Form:
        if self.form is None:
            raise SettingError("choose a block of the sum first: unopened[name]")
        return self.form
