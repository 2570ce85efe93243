from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hushtune.cli import main

Hushtune = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hushtune(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Iterator[Hushtune]:
    """The command line in this process: what it prints and its exit code are those of a process of its own."""
    yield from in_this_process(main, monkeypatch, capfd)


def in_this_process(program: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Iterator[Hushtune]:
    """Calls a program that reads its arguments from `sys.argv` and ends by exiting."""
    before = signal.getsignal(signal.SIGTERM)

    def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = ["hushtune", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", command)
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            program()
        said = capfd.readouterr()
        return subprocess.CompletedProcess(command, int(ended.value.code or 0), said.out, said.err)

    yield call
    signal.signal(signal.SIGTERM, before)
