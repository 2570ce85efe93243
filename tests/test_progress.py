from __future__ import annotations

import os
import pty
import subprocess
import sys

PROGRAM = """
from hushtune.progress import Progress
with Progress().phase("work", 1) as advance:
    print("a row")
    advance(1)
"""


def test_what_is_printed_reaches_a_file_while_a_terminal_shows_bars() -> None:
    terminal, end = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=end, text=True, check=True, timeout=60
        )
        shown = os.read(terminal, 10_000).decode()
    finally:
        os.close(terminal)
        os.close(end)
    assert done.stdout == "a row\n"
    assert "work" in shown
    assert "a row" not in shown
