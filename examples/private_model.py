"""One owner tunes and publishes a private model of the digits: one guarantee for the config and the model.

pip install -e '.[dpsgd]' && python examples/private_model.py runs/model
"""

from __future__ import annotations

import sys

import numpy as np
from torch import nn

import hushtune as ht
from hushtune.data import load


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def main(folder: str) -> None:
    data = load("digits")
    order = np.random.default_rng(0).permutation(len(data.train))
    train, held_out = data.train.take(order[200:]), data.train.take(order[:200])
    space = ht.Space(lr=ht.Float(0.03, 10.0, log=True), momentum=ht.Choice([0.0, 0.9]))
    trainer = ht.DPSGD(ht.TorchObjective(network, epochs=20, batch=16), batch=64, epochs=20)
    fitted = ht.fit(
        train,
        space.grid(lr=6),
        method=ht.NoisyMax(voters=40),
        trainer=trainer,
        privacy=ht.Privacy(epsilon=4.0, delta=1e-5, unit="record", neighbours="add-remove"),
        validation=held_out,
        folder=folder,
        home="runs/home",  # the owner's own: its ledger, and scores of parts; nothing to publish
    )
    print(f"{fitted.config}: {trainer.score(fitted.model, data.test):.1%} of the test rows\n\n{fitted.statement}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/model")
