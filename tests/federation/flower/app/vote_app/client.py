"""A node whose best candidate is the one with the number of its partition."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import hushtune as ht
import hushtune.flower


@ht.objective
def distance(config: ht.Config, data: ht.Rows) -> float:
    with open(Path(os.environ["HUSHTUNE_HOME"]) / "scored", "a") as file:
        file.write("x")
    return float(abs(config["x"] - data.y[0]))


def own_rows(context: Context) -> ht.Rows:
    return ht.Rows(np.zeros((4, 1)), np.full(4, float(context.node_config["partition-id"])))


app = ClientApp()
OPEN = ht.Policy(exact=True, seals=("masked", "threshold"))  # unless the node's operator says otherwise
hushtune.flower.register(app, distance, data=own_rows, policy=OPEN)


@app.query("other")
def other(message: Message, context: Context) -> Message:
    """The app's own functions stay as they are."""
    return Message(message.content, reply_to=message)
