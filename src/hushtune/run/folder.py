"""What a run writes down as it goes, so that the same command takes it up again after an interruption."""

from __future__ import annotations

import fcntl
import json
import uuid
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from hushtune.core.errors import SettingError
from hushtune.core.files import replace
from hushtune.core.roster import Id
from hushtune.privacy.accounting import Budget
from hushtune.run.result import Opened

Kept = tuple[Opened, dict[Id, str], dict[Id, str]]
"""What one step opened, who was not in it, and who was, but could not be reached afterwards; each with the reason."""


class RunFolder:
    """run.json in a run's folder: the run's id, its settings and what it has opened. Without a folder: nothing.

    Because the id stays the same, ledgers are not charged twice and clients send the same bytes again.

    Args:
        folder: the run's.
        settings: a digest of what must be the same when the run is taken up again.
        simulated: whether the run's id follows from its settings, so that a simulation can be repeated.
        left: what the ledger has left; a run that is taken up again keeps to what it had left when the run began.
    """

    def __init__(self, folder: Path | None, settings: str, left: Budget | None, simulated: bool = False) -> None:
        self._path = folder / "run.json" if folder is not None else None
        self._state: dict[str, Any] = {
            "run": settings[:32] if simulated else uuid.uuid4().hex,
            "settings": settings,
            "opened": [],
            "sessions": 0,
        }
        self._state["left"] = [left.epsilon, left.delta] if left is not None else None
        if self._path is None:
            return
        if (self._path.parent / "comparison.json").exists():
            raise SettingError(f"{self._path.parent} holds a comparison; choose another folder")
        if (self._path.parent / "result.json").exists():
            raise SettingError(f"{self._path.parent} holds a finished run; choose another folder, or remove it")
        if self._path.exists():
            self._state = self._resume(settings)

    def begin(self) -> None:
        """Claims the folder for this process and writes down the run's id."""
        if self._path is None:
            return
        self._lock = _locked(self._path.parent, "run.lock")
        if self._path.exists() and self._resume(self._state["settings"])["run"] != self.run:
            raise SettingError(f"another process began a run in {self._path.parent} just now; give the command again")
        self._write()

    def _resume(self, settings: str) -> dict[str, Any]:
        assert self._path is not None
        try:
            state: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
            same = state["settings"] == settings
            for kept in state["opened"]:
                Opened(**kept["opened"]), dict(kept["dropped"]), dict(kept["late"])
            str(state["run"]), int(state["sessions"]), state["left"] is None or Budget(*state["left"])
        except (ValueError, KeyError, TypeError):
            raise SettingError(f"{self._path} must be written by hushtune, but it is damaged; remove it") from None
        if not same:
            raise SettingError(
                f"{self._path.parent} holds an unfinished run with other settings; choose another folder, or remove it"
            )
        return state

    @property
    def run(self) -> str:
        """The run's id: 32 hex digits."""
        return str(self._state["run"])

    @property
    def left(self) -> Budget | None:
        """What the ledger had left when the run began, without what the run costs; None without a limit."""
        return Budget(*self._state["left"]) if self._state["left"] is not None else None

    def opening(self, step: int) -> Kept | None:
        """What was opened in this step before the interruption."""
        if step >= len(self._state["opened"]):
            return None
        kept = self._state["opened"][step]
        return Opened(**kept["opened"]), dict(kept["dropped"]), dict(kept["late"])

    def first_round(self) -> int:
        """A number that no session of this run has come near yet: each gets a million rounds of its own."""
        self._state["sessions"] += 1
        self._write()
        return (int(self._state["sessions"]) - 1) * 1_000_000

    def keep(self, opened: Opened, dropped: dict[Id, str], late: dict[Id, str]) -> None:
        """Writes down what was opened."""
        self._state["opened"].append({"opened": asdict(opened), "dropped": dropped, "late": late})
        self._write()

    def _write(self) -> None:
        if self._path is not None:
            replace(self._path, json.dumps(self._state, indent=2) + "\n")


def _locked(folder: Path, name: str) -> IO[str]:
    """Claims a folder for this process, until the file is closed or the process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / name, "w")  # noqa: SIM115 (held)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SettingError(f"another process is running in {folder}; choose another folder") from None
    except OSError as error:
        raise SettingError(f"{folder} cannot be written: {error.strerror}; choose another folder") from None
    return lock


def claimed(folder: Path, file: str) -> IO[str]:
    """Claims a folder for several runs; refuses one that holds a run of its own."""
    for name in ("run.json", "result.json"):
        if (folder / name).exists():
            raise SettingError(f"{folder} holds a run; choose another folder for {file}")
    return _locked(folder, "comparison.lock")
