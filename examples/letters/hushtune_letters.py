"""A transport of one's own, outside hushtune: letters are files in a folder that server and clients share.

A client's machine watches its own inbox and puts its answers beside the letters. Everything else is hushtune's: what a
letter says (`Endpoint`), who is behind which machine, and what a missing answer means (`RemoteFederation`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import hushtune as ht
from hushtune.federation.base import Dropped
from hushtune.federation.endpoint import Endpoint
from hushtune.federation.remote import RemoteFederation

_POLL = 0.02  # seconds between two looks into a folder


class FolderFederation(RemoteFederation):
    """Clients that read and write files in one shared folder.

    Args:
        folder: the shared one; every machine's inbox is a folder in it, named after the machine.
        machines: their names.
        home: folder of the coordinator's ledgers.
        timeout: seconds for each trip; whoever has not answered by then has dropped out.
    """

    def __init__(self, folder: Path, machines: list[str], home: Path, timeout: float = 600.0) -> None:
        super().__init__(machines, self._send, home)
        self._folder, self._timeout, self._number = folder, timeout, 0

    def _send(self, letters: Mapping[str, bytes]) -> Mapping[str, bytes | Dropped]:
        """One letter for each machine; what lies there in time is its answer."""
        self._number += 1
        for machine, letter in letters.items():
            put(self._folder / machine / f"{self._number}.letter", letter)
        end, answers = time.monotonic() + self._timeout, {}
        while len(answers) < len(letters) and time.monotonic() < end:
            for machine in letters:
                answer = self._folder / machine / f"{self._number}.answer"
                if machine not in answers and answer.exists():
                    answers[machine] = answer.read_bytes()
            time.sleep(_POLL)
        late = Dropped(f"no answer within {self._timeout:g} s")
        return {machine: answers.get(machine, late) for machine in letters}


class Machine:
    """One client's machine: answers the letters in its inbox, one after the other.

    Args:
        client: data, objective, policy and identity: all of it stays here. Without a policy, and without a limit in its
            ledger, it refuses every run.
        name: the machine's.
        folder: the shared one.
        home: folder of the client's own ledger and cached trials; nobody else should be able to read it.
    """

    def __init__(self, client: ht.Client, name: str, folder: Path, home: Path) -> None:
        self._endpoint = Endpoint(client, name, name, home, roster=None, seed=None, jobs=1)
        self._inbox = folder / name
        self._inbox.mkdir(parents=True, exist_ok=True)
        self._state = b""  # secrets of a run in progress

    def look(self) -> None:
        """Answers the letters that are there."""
        for letter in sorted(self._inbox.glob("*.letter"), key=lambda path: int(path.stem)):
            reply, self._state = self._endpoint.reply(letter.read_bytes(), self._state)
            put(letter.with_suffix(".answer"), reply)
            letter.unlink()

    def serve(self) -> None:
        """Answers until the process is stopped: a machine's whole program."""
        while True:
            self.look()
            time.sleep(_POLL)


def put(path: Path, content: bytes) -> None:
    """Writes a file that nobody sees in part."""
    draft = path.with_suffix(path.suffix + ".draft")
    draft.write_bytes(content)
    os.replace(draft, path)
