"""A node: takes part in private tuning, and trains as any Flower client does."""

from __future__ import annotations

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import hushtune as ht
import hushtune.flower
from flower_vote.task import SPACE, local_data, model, weights, with_weights

app = ClientApp()
hushtune.flower.register(
    app,
    ht.SklearnObjective(model(), validation=0.3),
    data=local_data,
    space=SPACE,  # nothing else is tuned here, whatever a server asks
)


@app.train()
def train(message: Message, context: Context) -> Message:
    rows, config = local_data(context), message.content["config"]
    trained = with_weights(message.content["arrays"], {name: float(config[name]) for name in ("eta0", "alpha")})
    for _ in range(5):
        trained.partial_fit(rows.X, rows.y)
    metrics = MetricRecord({"num-examples": len(rows)})
    return Message(RecordDict({"arrays": weights(trained), "metrics": metrics}), reply_to=message)
