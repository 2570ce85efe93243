"""Federated training with the chosen config, or with many configs at once."""

from __future__ import annotations

from hushtune.training.fedavg import FedAvg, Trained

__all__ = ["FedAvg", "Trained"]
