from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from hushtune.core.lazy import public_names

STUB = """
from json import dumps as dumps
from json import loads as read
from lazytoy import inner as inner
from math import nan as nan
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "lazytoy"
    folder.mkdir()
    (folder / "__init__.pyi").write_text(STUB)
    (folder / "__init__.py").write_text("")
    (folder / "inner.py").write_text("HERE = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    return str(folder / "__init__.py")


def test_a_name_is_loaded_from_the_home_that_the_stub_says(file: str) -> None:
    load, names, exported = public_names("lazytoy", file, extras=("nan",))
    import json

    assert load("dumps") is json.dumps
    assert load("inner").HERE == 1
    assert load("nan") != load("nan")
    assert names() == exported == ["dumps", "read"]  # neither modules nor what needs an extra


def test_unlike_an_import_it_refuses_what_the_stub_does_not_list(file: str) -> None:
    load, _, _ = public_names("lazytoy", file)
    for name in ("loads", "json", "__path__"):
        with pytest.raises(AttributeError, match=f"module 'lazytoy' has no attribute '{name}'"):
            load(name)
    assert load("nan") is not None
