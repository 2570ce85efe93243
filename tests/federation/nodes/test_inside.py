"""Inside a node's process: what it is told first decides whether it starts; nothing that it is asked ends it."""

from __future__ import annotations

import errno
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from tests.federation.nodes.harness import END, Site, framed, until
from tests.federation.nodes.program import reader
from tests.seals.quorum.room import RUN, said, seeded

from hushtune.core.errors import CacheError, SettingError
from hushtune.federation.nodes import guard as guards
from hushtune.federation.nodes import inside
from hushtune.federation.nodes.certificate import check
from hushtune.federation.nodes.guard import MOST_RUNS
from hushtune.federation.nodes.inside import Inside
from hushtune.federation.nodes.process import CERTIFICATE, MESSAGE
from hushtune.federation.nodes.streams import Halt, PipeStream


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "_PATIENCE", 0.05)
    monkeypatch.setattr(guards, "_PATIENCE", 0.05)


def made(site: Site, **changes: Any) -> Inside:
    return Inside(replace(site.own(site.roster.nodes[0]), **changes), site.roster, reader)


def test_only_one_process_serves_a_folder(tmp_path: Path) -> None:
    site = Site(tmp_path)
    first = made(site, served=True)
    with pytest.raises(SettingError, match="must have .*node-1 to itself, but another process runs this node there"):
        made(site, served=True)
    del first
    made(site, served=True)


def test_a_coordinators_own_processes_share_a_folder_but_no_run(tmp_path: Path) -> None:
    site = Site(tmp_path)
    first, second = made(site), made(site)
    reply = first.reply(MESSAGE + framed())
    assert said(reply)["is"] == "key"
    assert "another process" in said(second.reply(MESSAGE + framed()))["reason"]
    assert said(first.reply(MESSAGE + framed(END)))["is"] == "ended"
    assert said(second.reply(MESSAGE + framed()))["is"] == "key"


def test_only_a_served_node_bounds_its_runs(tmp_path: Path) -> None:
    site = Site(tmp_path)
    for number in range(MOST_RUNS):
        (tmp_path / "nodes" / "node-1" / f"{number:032x}").mkdir(parents=True)
        os.utime(tmp_path / "nodes" / "node-1" / f"{number:032x}", (time.time(),) * 2)
    assert "unfinished runs" in said(made(site, served=True).reply(MESSAGE + framed()))["reason"]
    assert said(made(site).reply(MESSAGE + framed()))["is"] == "key"


def test_numbers_of_nodes_that_cannot_compute(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.roster = replace(site.roster, nodes=site.roster.nodes[:2])
    with pytest.raises(SettingError, match="nodes must be one of"):
        made(site)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nodes" / "node-1").mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(CacheError, match="must belong to the user who runs this"):
        made(Site(tmp_path))


def test_its_certificate_is_the_nodes(tmp_path: Path) -> None:
    site = Site(tmp_path)
    pem = made(site).reply(CERTIFICATE)
    check(
        x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN C") :]).public_bytes(Encoding.DER),
        site.roster.nodes[0],
    )
    assert seeded("node-1").secret.hex().encode() not in pem


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/secret/place"), "this node's own files cannot be used"),
        (MemoryError("value 17"), "internal error"),
        (KeyError("value 17"), "internal error"),
    ],
)
def test_what_goes_wrong_is_a_refusal_without_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, reason: str
) -> None:
    node = made(Site(tmp_path))
    first = node.reply(MESSAGE + framed())

    def fails(frame: bytes) -> bytes:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(node.guard, "step", fails)
        assert said(node.reply(MESSAGE + framed())) == {"kind": "refused", "reason": reason}
    assert "17" not in caplog.text
    assert node.reply(MESSAGE + framed()) == first


def test_a_full_disk_is_a_refusal_and_the_message_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = made(Site(tmp_path))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for _ in range(2):
            assert said(node.reply(MESSAGE + framed()))["reason"] == "this node's own files cannot be used"
    assert said(node.reply(MESSAGE + framed()))["is"] == "key"
    assert (tmp_path / "nodes" / "node-1" / RUN).exists()


def test_old_runs_are_looked_for_now_and_then_between_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node, halt = made(Site(tmp_path)), Halt()
    looked: list[int] = []
    monkeypatch.setattr(inside, "_HOUR", 0.01)
    monkeypatch.setattr(node.guard, "expire", lambda: looked.append(1))
    (read, sink), (source, write) = os.pipe(), os.pipe()
    near = PipeStream(os.fdopen(read, "rb", 0), os.fdopen(write, "wb", 0))
    opened = os.fdopen(source, "rb", 0)
    far = PipeStream(opened, os.fdopen(sink, "wb", 0))

    def served() -> None:
        with pytest.raises(ConnectionError):
            inside.serve(node, opened, far, halt)

    thread = threading.Thread(target=served)
    thread.start()
    for _ in range(2):
        seen = len(looked)
        until(lambda seen=seen: len(looked) > seen + 2)  # type: ignore[misc]
        near.send(halt, MESSAGE, framed())
        assert said(near.receive(halt))["is"] == "key"
    near.close()
    thread.join()


@pytest.mark.parametrize("frame", [b"", b"x", b"m", MESSAGE + framed(b""), MESSAGE + framed(b"garbage"), b"\xff" * 100])
def test_garbage_is_refused(tmp_path: Path, frame: bytes) -> None:
    assert said(made(Site(tmp_path)).reply(frame))["kind"] == "refused"
