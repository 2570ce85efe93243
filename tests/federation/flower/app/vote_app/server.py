"""One vote; the test may hold up each trip, to kill nodes in between."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp

import hushtune as ht
import hushtune.flower

CANDIDATES = ht.Space(x=ht.Float(0.0, 4.0)).grid(x=5)
app = ServerApp()


class Paced:
    """A grid that waits, before trip k, until the file hold-k is gone."""

    def __init__(self, grid: Grid, pace: Path) -> None:
        self._grid, self._pace, self._trip = grid, pace, 0
        (pace / "pid").write_text(str(os.getpid()))

    def get_node_ids(self) -> Iterable[int]:
        return self._grid.get_node_ids()

    def send_and_receive(self, messages: Iterable[Message], **settings: Any) -> Iterable[Message]:
        (self._pace / f"before-{self._trip}").touch()
        while (self._pace / f"hold-{self._trip}").exists():
            time.sleep(0.1)
        self._trip += 1
        return self._grid.send_and_receive(messages, **settings)


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    paced: Any = Paced(grid, Path(str(config["pace"])))
    settings = hushtune.flower.settings(context)
    nodes = hushtune.flower.FlowerFederation(paced, observer=ht.Silent(), **settings.federation)
    method = ht.Vote(k=1, decode=None if config["hushtune-seal"] == "quorum" else "argmax")
    result = ht.tune(nodes, CANDIDATES, method=method, observer=ht.Silent(), **settings.tune)
    result.save(str(config["out"]))
    print(result.statement)
