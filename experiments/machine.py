"""Benchmarks: each prints rows, or one JSON object with `rows` and the machine it ran on."""

from __future__ import annotations

import math
import os
import platform
import re
from pathlib import Path
from typing import Any

from hushtune.privacy.guarantee import Privacy

DELTA = 1e-5


def privacy_of(epsilon: float) -> Privacy | None:
    """The guarantee of an arm; infinity stands for none."""
    return Privacy(epsilon, DELTA) if math.isfinite(epsilon) else None


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    """Its model, where Linux tells it; else its kind."""
    told = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", told.read_text(), re.MULTILINE) if told.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()
