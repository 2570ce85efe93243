"""What figures were measured on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Its processor, its cores, and the Python that ran."""
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
