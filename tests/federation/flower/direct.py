"""A grid that calls a ClientApp directly: Flower's messages and records, without its processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity

TaskIdentity._task_id, TaskIdentity._run_id, TaskIdentity._node_id = 1, 1, 1  # what Flower's runtime sets


class DirectGrid:
    """`tamper` gets each message and its reply, and gives the replies that come back in its place."""

    def __init__(self, app: ClientApp, node_configs: list[dict[str, Any]]) -> None:
        self.contexts = {
            1000 + at: Context(1, 1000 + at, config, RecordDict(), {}) for at, config in enumerate(node_configs)
        }
        self.app = app
        self.tamper: Callable[[int, Message, Message], list[Message]] = lambda trip, message, reply: [reply]
        self.seen: list[tuple[Message, Message]] = []
        self.timeouts: list[float | None] = []
        self.trips = 0

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        replies = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            reply = self.app(message, self.contexts[message.metadata.dst_node_id])
            self.seen.append((message, reply))
            replies += self.tamper(self.trips, message, reply)
        self.timeouts.append(timeout)
        self.trips += 1
        return reversed(replies)
