"""Flower as the engine of a run: what `hushtune.federation.flower` makes public."""

from hushtune.federation.flower import FlowerFederation, register, settings

__all__ = ["FlowerFederation", "register", "settings"]
