"""What a run writes down as it goes, so that the same command takes it up again after an interruption."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hushtune.core.errors import SettingError
from hushtune.core.files import replace
from hushtune.core.locks import Claim
from hushtune.core.roster import Id
from hushtune.privacy.accounting import Budget
from hushtune.run.result import Opened

Kept = tuple[Opened, dict[Id, str], dict[Id, str]]
"""What one step opened, who was not in it, and who was, but did not help to open it; each with the reason."""


FILE = "run.json"


class RunFolder:
    """run.json in a run's folder: the run's id, its settings and what it has opened. Without a folder: nothing.

    Because the id stays the same, ledgers are not charged twice and clients send the same bytes again.

    Args:
        folder: the run's.
        settings: by name, what must be the same when the run is taken up again; a digest of each is written down.
        simulated: whether the run's id follows from its settings, so that a simulation can be repeated.
        left: what the ledger has left; a run that is taken up again keeps to what it had left when the run began.
    """

    def __init__(
        self, folder: Path | None, settings: Mapping[str, Any], left: Budget | None, simulated: bool = False
    ) -> None:
        self._path = folder / FILE if folder is not None else None
        self._lock: Claim | None = None
        self._state: dict[str, Any] = {
            "run": digest(list(settings.values()))[:32] if simulated else uuid.uuid4().hex,
            "settings": {name: digest(value) for name, value in settings.items()},
            "opened": [],
            "sessions": 0,
        }
        self._state["left"] = [left.epsilon, left.delta] if left is not None else None
        if self._path is None:
            return
        if (self._path.parent / "comparison.json").exists():
            raise SettingError(f"{self._path.parent} holds a comparison; choose another folder")
        self._check_unfinished()
        if self._path.exists():
            self._state = self._resume()

    def begin(self) -> None:
        """Claims the folder for this process and writes down the run's id.

        What another process did meanwhile counts.
        """
        if self._path is None:
            return
        self._lock = _locked(self._path.parent, "run.lock")
        self._check_unfinished()
        if self._path.exists():
            state = self._resume()
            if state["run"] != self.run:
                raise SettingError(
                    f"another process began a run in {self._path.parent} just now; give the command again"
                )
            self._state = state
        self._write()

    def close(self) -> None:
        """Lets others claim the folder: an error that somebody holds on to must not keep it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _check_unfinished(self) -> None:
        assert self._path is not None
        if (self._path.parent / "result.json").exists():
            raise SettingError(f"{self._path.parent} holds a finished run; choose another folder, or remove it")

    def _resume(self) -> dict[str, Any]:
        assert self._path is not None
        state = _read(self._path)
        if state["settings"] != self._state["settings"]:
            raise SettingError(
                f"{self._path.parent} holds an unfinished run with other settings; choose another folder, or remove it"
            )
        return state

    @property
    def place(self) -> Path | None:
        """The run's folder, if it has one."""
        return self._path.parent if self._path is not None else None

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
        return _kept(self._state["opened"][step])

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


@dataclass(frozen=True)
class Records:
    """What run.json says of a run.

    Args:
        run: its id.
        settings: by name, a digest of each.
        opened: what each step opened, and who was missing.
    """

    run: str
    settings: Mapping[str, str]
    opened: list[Kept]


def records(folder: Path) -> Records | None:
    """What run.json in the folder says; None if there is none, SettingError if it is damaged."""
    if not (folder / FILE).exists():
        return None
    state = _read(folder / FILE)
    return Records(state["run"], state["settings"], [_kept(kept) for kept in state["opened"]])


def digest(value: Any) -> str:
    """One text for equal plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    """The state in a run.json, if it is whole."""
    try:
        state: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for kept in state["opened"]:
            _kept(kept)
        str(state["run"]), int(state["sessions"]), state["left"] is None or Budget(*state["left"])
        dict(state["settings"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SettingError(f"{path} must be written by hushtune, but it is damaged; remove it") from None
    return state


def _kept(raw: Mapping[str, Any]) -> Kept:
    return Opened(**raw["opened"]), dict(raw["dropped"]), dict(raw["late"])


def _locked(folder: Path, name: str) -> Claim:
    """Claims a folder for this process, until the claim is closed or the process ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Claim(folder / name)
    except BlockingIOError:
        raise SettingError(f"another process is running in {folder}; choose another folder") from None
    except OSError as error:
        raise SettingError(f"{folder} cannot be written: {error.strerror}; choose another folder") from None


def claimed(folder: Path, file: str) -> Claim:
    """Claims a folder for several runs; refuses one that holds a run of its own."""
    for name in ("run.json", "result.json"):
        if (folder / name).exists():
            raise SettingError(f"{folder} holds a run; choose another folder for {file}")
    return _locked(folder, "comparison.lock")
