"""Whether what was opened is what so many clients can send: checked before a method decides from it."""

from __future__ import annotations

import numpy as np

from hushtune.client.query import Query
from hushtune.core.arrays import IntArray
from hushtune.core.errors import BoundError
from hushtune.privacy.limits import one_client, opened_sum
from hushtune.privacy.noise.base import Noise
from hushtune.run.result import Opened
from hushtune.seals.forms import Form, form_from_json


def check_possible(query: Query, opened: Opened, voters: int, noise: Noise, honest: int) -> None:
    """Refuses what no clients can have sent, whatever the noise; a BoundError says which limit is broken.

    Args:
        query: what each unit was asked.
        opened: what became known.
        voters: units of each client.
        noise: what the opening got.
        honest: the fewest honest clients of a completed round.
    """
    if query.bound.tests:
        return  # answers, which are places: no sum was opened
    if (form := form_from_json(opened.form)) is not None:
        _check_form(query, opened, form, voters, noise, honest)
        return
    if opened.own is None:
        values = _joined(query, opened.blocks)
        opened_sum(query.bound, voters, opened.answered, noise, honest).check(values)
        return
    if opened.blocks:
        raise BoundError("a sum was opened beside clients' own answers")
    one = one_client(query.bound, voters, max(1, opened.answered), noise, honest)
    for blocks in opened.own.values():
        one.check(_joined(query, blocks))


def _joined(query: Query, blocks: dict[str, list[int]]) -> IntArray:
    """The vector that was opened in named parts."""
    return np.concatenate([np.asarray(blocks[name], dtype=np.int64) for name in query.blocks])


def _check_form(query: Query, opened: Opened, form: Form, voters: int, noise: Noise, honest: int) -> None:
    """Comparisons are 0 or 1; a quotient of what is at most its divisor is about 0 to 1; a block is part of the sum."""
    values = np.asarray(opened.blocks[form.block])
    if form.at_least is not None:
        inside = bool(np.isin(values, (0, 1)).all())
    elif form.over is not None:
        inside = bool((np.abs(values - 0.5) <= 1).all())
    else:
        start = sum(length for name, length in query.blocks.items() if _before(query, name, form.block))
        opened_sum(query.bound, voters, opened.answered, noise, honest).check_entries(values, start)
        return
    if not inside:
        raise BoundError(f"{form.words}: values that no sum gives")


def _before(query: Query, name: str, block: str) -> bool:
    names = list(query.blocks)
    return names.index(name) < names.index(block)
