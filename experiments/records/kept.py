"""What was measured of one federation, as rows of JSON in one file: read first, measured if missing, then added."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hushtune.core.files import replace

Row = dict[str, Any]
_ACCURACY = "accuracy"


class Kept:
    """One federation's rows: the first has its facts, each of the others what was chosen, by epsilon.

    Args:
        path: of the file; it need not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[Row] = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def facts(self, measured: Callable[[], Row]) -> Row:
        """What a choice is held against.

        Args:
            measured: gives them, if they are not kept.
        """
        if not self._rows:
            self._rows.append(measured())
            self._write()
        return self._rows[0]

    def mean(self, wanted: Row, epsilon: str, measured: Callable[[], float]) -> float:
        """A mean accuracy.

        Args:
            wanted: what was run; rows with the same values are one.
            epsilon: of the run.
            measured: gives the mean, if it is not kept.
        """
        row = next((row for row in self._rows[1:] if {**row, _ACCURACY: None} == {**wanted, _ACCURACY: None}), None)
        if row is None:
            row = {**wanted, _ACCURACY: {}}
            self._rows.append(row)
        known: dict[str, float] = row[_ACCURACY]
        if epsilon not in known:
            known[epsilon] = measured()
            self._write()
        return known[epsilon]

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace(self._path, "".join(json.dumps(row) + "\n" for row in self._rows))
