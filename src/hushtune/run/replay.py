"""A recorded run once more: a method decides again from what was opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hushtune.client.query import Query
from hushtune.client.search.base import Search
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.errors import SettingError
from hushtune.core.roster import Id
from hushtune.core.space import Candidates
from hushtune.methods.base import Note
from hushtune.methods.unopened import Unopened
from hushtune.run.result import Opened
from hushtune.seals.forms import Form
from hushtune.seals.oracle import ANSWERS, Choose, RecordedOracle


class Replay:
    """Lets a method decide again from the openings a result recorded. Asks nobody."""

    def __init__(self, run: str, candidates: Candidates, search: Search, asked: int, opened: Sequence[Opened]) -> None:
        self.id = run
        self.candidates = candidates
        self.search = search
        self.asked = asked
        self.notes: dict[str, Note] = {}
        self.left_out: dict[Id, str] = {}
        self._opened = list(opened)
        self.queries: list[Query] = []

    def sum(self, query: Query) -> Mapping[str, IntArray]:
        """The recorded sum of the next step."""
        return _checked(query, self._next(query, gathered=False).blocks)

    def unopened(self, query: Query) -> Unopened:
        """The recorded form of the next step's sum, or what follows from the recorded sum."""
        return Unopened(query, self._form)

    def _form(self, query: Query, form: Form) -> IntArray | FloatArray:
        opened = self._next(query, gathered=False, form=form)
        if opened.form is None:
            return form.of(_checked(query, opened.blocks))
        values = np.array(opened.blocks.get(form.block))
        if (
            opened.form != form.to_json()
            or values.shape != (query.blocks[form.block],)
            or values.dtype.kind not in "if"
        ):
            raise SettingError("an opening is not the form of its sum that its method asks for")
        return values

    def consult(self, query: Query, choose: Choose) -> int:
        """From the recorded answers, all of which must be asked for."""
        blocks = self._next(query, gathered=False).blocks
        if set(blocks) != {ANSWERS}:
            raise SettingError("an opening holds more, or less, than answers to questions")
        answers = RecordedOracle(blocks[ANSWERS], len(self.candidates))
        place = choose(answers)
        answers.check_end()
        return place

    def gather(self, query: Query) -> Mapping[Id, Mapping[str, IntArray]]:
        """Every client's own answer of the next step, as recorded."""
        own = self._next(query, gathered=True).own or {}
        return {client: _checked(query, blocks) for client, blocks in own.items()}

    def _next(self, query: Query, gathered: bool, form: Form | None = None) -> Opened:
        step = len(self.queries)
        found = self._opened[step] if step < len(self._opened) else None
        wrong = found is None or found.query != query.name or (found.own is not None) != gathered
        if found is None or wrong or (found.form is not None and form is None):
            raise SettingError("the result does not hold the openings that its method asks for")
        self.queries.append(query)
        return found

    def leave_out(self, client: Id, reason: str) -> None:
        """Kept, to be compared."""
        self.left_out[client] = reason

    def note(self, name: str, value: Note) -> None:
        """Kept, to be compared."""
        self.notes[name] = value

    def noise_variance(self) -> float:
        """The variance of the last opening's noise, as recorded."""
        return self._opened[len(self.queries) - 1].noise_variance

    def answered(self) -> int:
        """How many clients answered the last opening, as recorded."""
        return self._opened[len(self.queries) - 1].answered


def _checked(query: Query, blocks: Mapping[str, list[int]]) -> dict[str, IntArray]:
    found = {name: np.array(values) for name, values in blocks.items()}
    shapes = {name: values.shape for name, values in found.items() if values.dtype.kind == "i"}
    if shapes != {name: (length,) for name, length in query.blocks.items()}:
        raise SettingError("an opening does not have the integers that its query asks for")
    return found
