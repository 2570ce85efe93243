"""A masked vote on Flower's simulation engine, beside Flower's own SecAgg+ with the same integers on the same nodes."""

from __future__ import annotations

import logging
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.compat.common.recorddict_compat import fitres_to_recorddict
from flwr.server import LegacyContext, SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from hushtune.client.rows import Rows
from hushtune.core.arrays import FloatArray, IntArray
from hushtune.core.observer import Observer, Silent
from hushtune.core.space import Candidates, Config, Float, Space
from hushtune.flower import FlowerFederation, register
from hushtune.methods.vote.method import Vote
from hushtune.run.tuning import tune
from hushtune.seals.masked.seal import Masked

_VOTES = 5
_SHARES = 15  # of SecAgg+, from 20 nodes on
_WARM = 3  # pings before anything is timed: the first waits for Ray


@dataclass(frozen=True)
class _Losses:
    """Losses that cost nothing to compute: a node's are a shuffle of 0 .. p-1."""

    def losses(self, configs: Sequence[Config], data: Rows, seed: int) -> FloatArray:
        return np.asarray(data.y, dtype=np.float64)[[int(config["x"]) for config in configs]]


def _order(node: int, length: int) -> IntArray:
    return np.random.default_rng(node).permutation(length)


def _ballot(node: int, length: int) -> IntArray:
    """The votes of a node."""
    return (_order(node, length) < _VOTES).astype(np.int64)


def rows(nodes: Sequence[int], length: int, repeats: int, observer: Observer) -> Iterator[dict[str, Any]]:
    """One row per number of nodes: medians over the repeats, taken in turns."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    os.environ.update({"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"})
    for count in nodes:
        yield _row(count, length, repeats, observer)


def _row(count: int, length: int, repeats: int, observer: Observer) -> dict[str, Any]:
    found: dict[str, Any] = {}
    expected = np.sum([_ballot(node, length) for node in range(count)], axis=0)
    candidates = Space(x=Float(0.0, length - 1.0)).candidates([{"x": float(at)} for at in range(length)])
    server_app = ServerApp()
    with tempfile.TemporaryDirectory() as home, observer.phase(f"{count} nodes", 2 * repeats) as advance:

        @server_app.main()
        def main(grid: Grid, context: Context) -> None:
            ours, theirs = [], []
            while len(ids := list(grid.get_node_ids())) < count:
                time.sleep(0.1)
            for _ in range(_WARM):
                _ping(grid, ids)
            _masked_vote(grid, count, candidates, expected, Path(home))  # the nodes score; not timed
            for _ in range(repeats):
                seconds, federation = _masked_vote(grid, count, candidates, expected, Path(home))
                ours.append(seconds)
                advance(1)
                theirs.append(_secagg(grid, context, ids, length, expected))
                advance(1)
            found.update(_figures(count, length, ours, theirs, federation))

        run_simulation(server_app, _client_app(length, home), count)
    return found


def _figures(
    count: int, length: int, ours: list[float], theirs: list[float], federation: FlowerFederation
) -> dict[str, Any]:
    mine, other = statistics.median(ours), statistics.median(theirs)
    return {
        "name": "flower",
        "nodes": count,
        "length": length,
        "seconds": round(mine, 2),
        "secagg_seconds": round(other, 2),
        "times_faster": round(other / mine, 2),
        **federation.traffic.per_client(count),
        "degree": Masked().shape(count).degree,
        "secagg_degree": (_SHARES if count >= 20 else count) - 1,
        "runs": [[round(a, 2), round(b, 2)] for a, b in zip(ours, theirs, strict=True)],
    }


def _client_app(length: int, home: str) -> ClientApp:
    """One app for both."""
    app = ClientApp()

    def data(context: Context) -> Rows:
        return Rows(np.zeros((length, 1)), _order(int(context.node_config["partition-id"]), length))

    register(app, _Losses(), data=data, home=home, jobs=1)

    @app.query("ping")
    def ping(message: Message, context: Context) -> Message:
        return Message(message.content, reply_to=message)

    @app.train(mods=[secaggplus_mod])
    def train(message: Message, context: Context) -> Message:
        votes = _ballot(int(context.node_config["partition-id"]), length)
        fit = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([votes]), 1, {})
        return Message(fitres_to_recorddict(fit, keep_input=True), reply_to=message)

    return app


def _ping(grid: Grid, ids: Sequence[int]) -> None:
    content = RecordDict({"ping": ConfigRecord({"x": 1})})
    list(grid.send_and_receive([Message(content, node, "query.ping") for node in ids]))


def _masked_vote(
    grid: Grid, count: int, candidates: Candidates, expected: IntArray, home: Path
) -> tuple[float, FlowerFederation]:
    """Seconds of one exact vote, keys included."""
    start = time.perf_counter()
    federation = FlowerFederation(grid, nodes=count, home=home, observer=Silent())
    result = tune(federation, candidates, method=Vote(k=_VOTES, decode="argmax"), seal=Masked(), observer=Silent())
    seconds = time.perf_counter() - start
    if result.opened[0].blocks["votes"] != expected.tolist():
        raise AssertionError("the masked vote is not exact")
    return seconds, federation


def _secagg(grid: Grid, context: Context, ids: Sequence[int], length: int, expected: IntArray) -> float:
    """Seconds of one round of SecAgg+ with weight 1 of 1 and a step of exactly 1, so that integers stay integers."""
    manager = SimpleClientManager()
    for node in ids:
        manager.register(GridClientProxy(node, grid, context.run_id))
    legacy = LegacyContext(context, strategy=FedAvg(), client_manager=manager)
    legacy.state[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: 1})
    legacy.state[MAIN_PARAMS_RECORD] = ArrayRecord()
    shares: float = _SHARES if len(ids) >= 20 else 1.0
    workflow = SecAggPlusWorkflow(shares, 2 / 3, max_weight=1.0, clipping_range=1.0, quantization_range=2)
    start = time.perf_counter()
    workflow(grid, legacy)
    seconds = time.perf_counter() - start
    (mean,) = legacy.state.array_records[MAIN_PARAMS_RECORD].to_numpy_ndarrays()
    if np.abs(mean * len(ids) - expected).max() > 1e-6:
        raise AssertionError("SecAgg+ is not exact")
    return seconds
