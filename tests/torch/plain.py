"""The plain loop that batched training must equal: one config after another, torch's own optimisers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import hushtune as ht
import torch
from hushtune.objectives.neural import TorchObjective, data_of
from hushtune.objectives.stacked import SharedDropout, _order, prepared


def masked(network: torch.nn.Module) -> torch.nn.Module:
    """The network with torch's own layers, but for dropout, whose masks must be the same."""
    found = prepared(network)
    for name, layer in list(found.named_modules()):
        if not isinstance(layer, SharedDropout) and name:
            with_own_class = network.get_submodule(name)
            layer.__class__ = type(with_own_class)
    return found


def plain_losses(objective: TorchObjective, configs: Sequence[ht.Config], data: Any, seed: int) -> np.ndarray:
    (x, y), (held_x, held_y) = data_of(data, objective.validation, seed)
    found = np.full(len(configs), np.nan)
    for shape, members in objective.groups(configs).items():
        trainer = objective.trainer(shape, seed)
        trainer._measure(x)
        for at in members:
            knobs = objective.optimiser_knobs(configs[at])
            network = masked(objective.network(shape, seed))
            if objective.optimiser == "adam":
                optimiser: Any = torch.optim.Adam(network.parameters(), knobs.lr, weight_decay=knobs.weight_decay)
            else:
                optimiser = torch.optim.SGD(
                    network.parameters(), knobs.lr, knobs.momentum, 0, knobs.weight_decay, knobs.nesterov
                )
            schedule = torch.optim.lr_scheduler.StepLR(optimiser, 1, knobs.decay)
            finite = True
            for epoch in range(objective.epochs):
                network.train()
                order = _order(len(x), seed, epoch)
                for step, begin in enumerate(range(0, len(x), objective.batch)):
                    batch = order[begin : begin + objective.batch]
                    for name, mask in trainer.masks(len(batch), seed, epoch, step):
                        layer = network.get_submodule(name.removesuffix(".mask"))
                        assert isinstance(layer, SharedDropout)
                        layer.mask = mask
                    optimiser.zero_grad()
                    loss = trainer._loss(network(x[batch]), y[batch])
                    finite &= bool(loss.isfinite())
                    loss.backward()
                    optimiser.step()
                schedule.step()
            network.eval()
            with torch.no_grad():
                outputs = network(held_x)
            if finite and bool(outputs.isfinite().all()):
                found[at] = 1 - objective.metric(outputs, held_y)
    return found
