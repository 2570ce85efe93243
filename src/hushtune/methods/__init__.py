"""The methods, by name."""

from __future__ import annotations

from typing import Any

from hushtune.methods.vote import Vote

METHODS: dict[str, type[Any]] = {Vote.name: Vote}
