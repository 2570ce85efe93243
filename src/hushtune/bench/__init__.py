"""Benchmarks: each prints rows, or one JSON object with `rows` and the machine it ran on."""

from __future__ import annotations

import math
import os
import platform
from typing import Any

from hushtune.privacy.guarantee import Privacy

DELTA = 1e-5


def privacy_of(epsilon: float) -> Privacy | None:
    """The guarantee of an arm; infinity stands for none."""
    return Privacy(epsilon, DELTA) if math.isfinite(epsilon) else None


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
