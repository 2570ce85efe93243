"""A claim is exclusive, ends with its process however that ends, and is never a mere file that says so."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import filelock
import pytest

from hushtune.core.locks import Claim

HOLDER = """
import sys
from pathlib import Path
from hushtune.core.locks import Claim
claim = Claim(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Another process that has claimed the file."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def test_it_is_exclusive_within_a_process_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = Claim(path)
    with pytest.raises(BlockingIOError):
        Claim(path)
    first.close()
    with Claim(path), pytest.raises(BlockingIOError):
        Claim(path)
    Claim(path)  # nobody keeps it: it ends at once
    Claim(path).close()


def test_it_is_exclusive_between_processes_and_ends_when_one_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = holder(path)
    try:
        with pytest.raises(BlockingIOError):
            Claim(path)
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    assert path.exists()  # what is left of it claims nothing
    Claim(path).close()


def test_patience_waits_until_the_other_is_done(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = holder(path)
    ending = threading.Timer(0.2, child.kill)
    ending.start()
    Claim(path, patience=60.0).close()
    ending.join()
    assert child.wait() == -signal.SIGKILL


def test_a_claim_of_another_thread_can_be_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    made: list[Claim] = []
    worker = threading.Thread(target=lambda: made.append(Claim(path)))
    worker.start()
    worker.join()
    with pytest.raises(BlockingIOError):
        Claim(path)
    made[0].close()
    Claim(path).close()


def test_it_is_a_lock_of_the_operating_system(tmp_path: Path) -> None:
    assert not isinstance(Claim(tmp_path / "lock")._lock, filelock.SoftFileLock)


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """filelock may fall back to a file that says "locked", and stays so after its process was killed."""

    def missing(*arguments: object) -> None:
        raise OSError(errno.ENOSYS, "not here")

    monkeypatch.setattr("fcntl.flock", missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of filelock say that they fall back
        with pytest.raises(OSError, match="its file system has no locks"):
            Claim(tmp_path / "lock")


def test_a_folder_that_is_not_there_and_one_that_cannot_be_written_are_plain_errors(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file") as caught:
        Claim(tmp_path / "file" / "lock")
    assert not isinstance(caught.value, BlockingIOError)
