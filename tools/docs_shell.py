"""A scratch copy of the work tree in which documented commands run, page by page, each page in one shell's state."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from docs_pages import files

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_DRY_RUN": "1",  # nothing that make or pip does changes the environment that all commands share
    "PIP_QUIET": "1",
    "NO_COLOR": "1",
    "COLUMNS": "240",  # a help that is not wrapped can be searched for options
}
MARK = "HUSHTUNE_DOCS_CHECK"
"""Set to the scratch folder in everything that is started, so that what is left behind can be found."""


@dataclass(frozen=True)
class Ran:
    """What became of one command."""

    code: int
    output: str
    seconds: float
    cpu_seconds: float


class Scratch:
    """`with Scratch(root) as it: it.begin(); it.run(command, limit)`."""

    def __init__(self, root: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="docs-check-"))
        self.tree = self.folder / "tree"
        for name in files(root):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, self.tree / name)
        _lend_environment(self.tree / ".venv")
        subprocess.run(["git", "init", "--quiet"], cwd=self.tree, check=True)
        self._state = self.folder / "state"
        self._where = self.folder / "where"
        self._env = {
            **os.environ,
            **QUIET,
            "HUSHTUNE_HOME": str(self.folder / "home"),
            MARK: str(self.folder),
            "PATH": f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": f"{self.tree / 'src'}:{self.folder / 'packages'}",
            "PACKAGES": str(self.folder / "packages"),
            **({"HUSHTUNE_DATA": str(Path(data).absolute())} if (data := os.environ.get("HUSHTUNE_DATA")) else {}),
            "FLWR_HOME": str(self.folder / "flwr"),
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(_free_port()),
            "FLWR_LOCAL_CONTROL_API_PORT": str(_free_port()),
        }

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_leftovers()
        shutil.rmtree(self.folder, ignore_errors=True)

    def begin(self) -> None:
        """A new page begins at the top of the tree; what earlier ones left there and in the home folder stays."""
        self.stop_leftovers()
        self._state.write_text("")
        self._where.write_text(str(self.tree))

    @property
    def where(self) -> str:
        """The folder that the page's shell is in."""
        return self._where.read_text().strip()

    def run(self, command: str, limit: float, at_top: bool = False) -> Ran:
        """One command in the page's shell, whose folder and exported variables are kept for the next.

        With `at_top` it runs at the top of the tree and leaves the shell as it is: commands in the midst of a text.
        """
        state, where = shlex.quote(str(self._state)), shlex.quote(str(self._where))
        kept = "" if at_top else f"export -p > {state}\npwd > {where}\n"
        script = f"set -o pipefail\n. {state}\n{command}\ncode=$?\n{kept}exit $code\n"
        begun, cpu = time.monotonic(), _cpu_of_children()
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(
                ["bash", "-c", script],
                cwd=self.tree if at_top else self.where,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                raise
            printed.seek(0)
            output = printed.read().decode(errors="replace")
        return Ran(code, output, time.monotonic() - begun, _cpu_of_children() - cpu)

    def stop_leftovers(self) -> None:
        """Ends what commands left running, such as Flower's local SuperLink: by pid, and only what was started here."""
        for sent in (signal.SIGTERM, signal.SIGKILL):
            for pid in self._running():
                with suppress(ProcessLookupError):
                    os.kill(pid, sent)
            end = time.monotonic() + 10
            while self._running() and time.monotonic() < end:
                time.sleep(0.1)

    def _running(self) -> list[int]:
        marked = f"{MARK}={self.folder}\0".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if marked in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found


def _lend_environment(place: Path) -> None:
    """The programs of this environment under another name, with the Makefile's marks of what is installed in it.

    The environment itself stays out of reach: marks that make sets, or removes, are the copy's own.
    """
    place.mkdir()
    for name in ("bin", "lib", "pyvenv.cfg"):
        (place / name).symlink_to(Path(sys.prefix) / name)
    for mark in Path(sys.prefix).iterdir():
        if mark.is_file() and not mark.suffix:
            (place / mark.name).touch()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
