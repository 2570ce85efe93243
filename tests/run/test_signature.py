from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import clients_around, tune
from tests.run.harness import result

import hushtune as ht
from hushtune.run import signature

IDENTITY = ht.Identity.new()


def test_a_signature_is_of_the_very_bytes_and_of_nothing_else(tmp_path: Path) -> None:
    content = result().save(tmp_path, IDENTITY).read_bytes()
    found = signature.read(tmp_path)
    assert found is not None
    assert found.public == IDENTITY.public
    assert found.holds(content)
    assert not found.holds(content + b" ")
    assert found.signature != IDENTITY.sign(content)  # what is signed begins with what it is for
    assert IDENTITY.secret.hex() not in (tmp_path / "result.sig").read_text()


def test_the_same_bytes_are_not_signed_again_and_other_bytes_are(tmp_path: Path) -> None:
    result().save(tmp_path, IDENTITY)
    file = tmp_path / "result.sig"
    before, place = file.read_bytes(), file.stat().st_ino
    result().save(tmp_path, IDENTITY)
    result().save(tmp_path)
    assert (file.read_bytes(), file.stat().st_ino) == (before, place)
    content = result(hushtune="other").save(tmp_path, IDENTITY).read_bytes()
    found = signature.read(tmp_path)
    assert found is not None
    assert found.holds(content)
    other = ht.Identity.new()
    result(hushtune="other").save(tmp_path, other)
    found = signature.read(tmp_path)
    assert found is not None
    assert found.public == other.public


def test_a_signature_of_other_bytes_does_not_stay(tmp_path: Path) -> None:
    result().save(tmp_path, IDENTITY)
    result(hushtune="other").save(tmp_path)
    assert signature.read(tmp_path) is None


def test_a_run_signs_what_it_writes_and_a_failing_signature_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "result.sig").mkdir(parents=True)  # a file cannot take its place
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=4)
    with pytest.raises(ht.SpentError, match="result.json is there, but without a signature"):
        tune(clients_around(3), candidates, folder=folder, identity=IDENTITY)
    paid = ht.Result.load(folder)
    assert paid.private
    (folder / "result.sig").rmdir()
    content = (folder / "result.json").read_bytes()
    paid.save(folder, IDENTITY)
    assert (folder / "result.json").read_bytes() == content
    assert ht.verify(folder, signer=IDENTITY.public.hex()).holds


def test_a_run_that_was_interrupted_before_its_result_is_signed_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signature is written first: a result that is there is signed, however a run ended."""
    from hushtune.run import result as module

    candidates, real = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=4), module.replace

    def dies(path: Path, content: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        tune(clients_around(3), candidates, folder=tmp_path / "run", identity=IDENTITY)
    assert not (tmp_path / "run" / "result.json").exists()
    first = (tmp_path / "run" / "result.sig").read_bytes()
    monkeypatch.setattr(module, "replace", real)
    tune(clients_around(3), candidates, folder=tmp_path / "run", identity=IDENTITY)
    assert ht.verify(tmp_path / "run", signer=IDENTITY.public.hex()).holds
    found = json.loads((tmp_path / "run" / "result.json").read_text())
    assert not found["ledger"]["new"]  # so the bytes are others than those signed first
    assert (tmp_path / "run" / "result.sig").read_bytes() != first


def test_an_identity_needs_a_folder_and_is_an_identity(tmp_path: Path) -> None:
    candidates = ht.Space(x=ht.Float(0.0, 1.0)).grid(x=4)
    with pytest.raises(ht.SettingError, match="give `folder` too"):
        tune(clients_around(3), candidates, identity=IDENTITY)
    with pytest.raises(ht.SettingError, match="identity must be an Identity"):
        tune(clients_around(3), candidates, folder=tmp_path, identity="key")


@pytest.mark.parametrize("text", ["", "{}", '{"public": "00", "signature": "00"}', "[]", "\xff"])
def test_a_damaged_signature_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.sig").write_text(text, encoding="latin-1")
    with pytest.raises(ht.SettingError, match=r"must be a signature that hushtune wrote, but it is damaged$"):
        signature.read(tmp_path)
