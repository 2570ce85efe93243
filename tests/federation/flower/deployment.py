"""A SuperLink and SuperNodes as real processes on loopback, each with a home of its own, stopped whatever happens."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

BIN = Path(sys.executable).parent
APP = Path(__file__).parent / "app"
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_until(what: str, ready: Any, seconds: float = 90) -> Any:
    """What `ready` gives, once it is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := ready():
            return found
        time.sleep(0.2)
    raise AssertionError(f"{what}: not within {seconds} s")


class Deployment:
    """`with Deployment(folder) as it: it.start_node(0); it.run(...)`."""

    def __init__(self, folder: Path, tls: Path | None = None) -> None:
        self.folder, self.tls, self.port = folder, tls, free_port()
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        self.configs: dict[int, str] = {}
        self.link: subprocess.Popen[bytes] | None = None
        self.address = f"127.0.0.1:{self.port}"

    def env(self, name: str) -> dict[str, str]:
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        path = f"{BIN}:{os.environ['PATH']}"
        return {**os.environ, **QUIET, "FLWR_HOME": str(home / "flwr"), "HUSHTUNE_HOME": str(home), "PATH": path}

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        env = self.env(name)
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                cwd=self.folder / name,
                env=env,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Deployment:
        secure = ["--insecure"]
        if self.tls is not None:
            secure = [
                *("--ssl-ca-certfile", str(self.tls / "ca.crt"), "--ssl-certfile", str(self.tls / "server.crt")),
                *("--ssl-keyfile", str(self.tls / "server.key"), "--enable-supernode-auth"),
            ]
        try:
            self.link = self._start(
                "link", "flower-superlink", *secure, "--host", "127.0.0.1", "--port", str(self.port)
            )
            wait_until("SuperLink", self._healthy)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        connection = "insecure = true" if self.tls is None else f'root-certificates = "{self.tls / "ca.crt"}"'
        config = self.folder / "user" / "flwr" / "config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f'[superlink]\ndefault = "it"\n\n[superlink.it]\naddress = "{self.address}"\n{connection}\n')
        return self

    def _healthy(self) -> bool:
        scheme, context = "http", None
        if self.tls is not None:
            scheme, context = "https", ssl.create_default_context(cafile=str(self.tls / "ca.crt"))
        try:
            with urllib.request.urlopen(f"{scheme}://{self.address}/health", timeout=2, context=context) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in list(self.nodes):
            self.kill(number)
        if self.link is not None:
            self.link.terminate()  # its own children have sessions of their own, and end with it
            try:
                self.link.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.link.pid, signal.SIGKILL)
                self.link.wait()

    # ---- nodes ---------------------------------------------------------------------------------------

    def start_node(self, number: int, config: str = "", key: Path | None = None) -> None:
        secure = ["--insecure"]
        if self.tls is not None:
            secure = ["--root-certificates", str(self.tls / "ca.crt")]
            secure += ["--auth-supernode-private-key", str(key)] if key is not None else []
        own = ["--superlink", self.address, "--host", "127.0.0.1", "--port", str(free_port())]
        settings = f"partition-id={number} num-partitions=5 hushtune-jobs=1 {config}"
        self.configs[number] = config
        self.nodes[number] = self._start(f"node-{number}", "flower-supernode", *secure, *own, "--node-config", settings)

    def kill(self, number: int) -> None:
        """kill -9, with everything it started."""
        node = self.nodes.pop(number)
        with suppress(ProcessLookupError):
            os.killpg(node.pid, signal.SIGKILL)
        node.wait()

    def ensure(self, configs: dict[int, str]) -> None:
        """Has exactly these nodes run, with these settings; waits until dead ones have been noticed."""
        for number in [n for n in self.nodes if configs.get(n) != self.configs[n]]:
            self.nodes[number].terminate()
            self.nodes.pop(number).wait()
        self.wait_for_nodes(len(self.nodes))
        for number in sorted(set(configs) - set(self.nodes)):
            self.start_node(number, configs[number])
        self.wait_for_nodes(len(configs))

    def online(self) -> int:
        """How many nodes the SuperLink counts as online."""
        listed = json.loads(self.flwr("supernode", "list", "it", "--format", "json"))
        return sum(node["status"] == "online" for node in listed["nodes"])

    def wait_for_nodes(self, count: int) -> None:
        wait_until(f"{count} nodes", lambda: self.online() == count, seconds=150)

    # ---- runs ----------------------------------------------------------------------------------------

    def flwr(self, *command: str) -> str:
        """The output of a flwr command of the user's."""
        done = subprocess.run(
            [str(BIN / "flwr"), *command],
            cwd=self.folder,
            env=self.env("user"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def submit(self, **config: Any) -> str:
        """Starts a run; its id."""
        given = " ".join(
            f"{name.replace('_', '-')}={json.dumps(str(value) if isinstance(value, Path) else value)}"
            for name, value in config.items()
        )
        return str(json.loads(self.flwr("run", str(APP), "it", "--format", "json", "--run-config", given))["run-id"])

    def status(self, run: str) -> str:
        listed = json.loads(self.flwr("ls", "it", "--run-id", run, "--format", "json"))["runs"][0]
        return f"{listed['status']} {listed.get('status-details', '')}"

    def finished(self, run: str, seconds: float = 400) -> str:
        """How a run ended."""
        wait_until(f"run {run}", lambda: self.status(run).startswith("finished"), seconds)
        return self.status(run)
