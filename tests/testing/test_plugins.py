"""Methods of installed packages: found by name, never at the price of hushtune's own names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

import hushtune as ht
from hushtune.client.query import Query, register
from hushtune.methods.registry import METHODS, method_class
from hushtune.methods.vote.ballots import TopVotes


def install(folder: Path, module: str, code: str, point: str) -> None:
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[hushtune.methods]\n{point}\n")


@pytest.mark.parametrize(
    ("module", "code", "message"),
    [
        (
            "plugin_absent",
            "import no_such_module",
            r"'plugin_absent' \(plugin_absent:X\) cannot be imported: No module",
        ),
        ("plugin_other", "X = 3", "entry point 'plugin_other' must lead to a method of that name"),
        (
            "plugin_takes",
            "import hushtune as ht\nclass X(ht.Vote):\n    name = 'vote'",
            "hushtune.methods.vote.method.Vote and plugin_takes.X are both called 'vote': rename one",
        ),
    ],
)
def test_a_package_that_does_not_hold_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, code: str, message: str
) -> None:
    install(tmp_path, module, code, f"{module} = {module}:X")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ht.SettingError, match=message) as error:
        method_class(module)
    assert "\n" not in str(error.value)


def test_an_installed_method_is_listed_and_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import hushtune as ht\nclass X(ht.Vote):\n    name = 'plugin-fine'"
    install(tmp_path, "plugin_fine", code, "plugin-fine = plugin_fine:X")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ht.SettingError, match=r"'noisy-max', 'plugin-fine', 'propose-test'.* but got 'fine'"):
        method_class("fine")
    assert method_class("plugin-fine").__name__ == "X"
    assert method_class("vote") is ht.Vote
    assert len(METHODS) == 6


def test_a_query_of_hushtunes_own_cannot_be_replaced() -> None:
    with pytest.raises(ht.SettingError, match=r"TopVotes and .*Fake are both called \('top-votes', 3\)"):

        @register
        @dataclass(frozen=True)
        class Fake(Query):
            name: ClassVar[str] = "top-votes"
            version: ClassVar[int] = 3

    assert register(TopVotes) is TopVotes


def test_a_class_may_be_made_again() -> None:
    """As when a notebook's cell is run twice."""

    def make() -> Any:
        class Again(ht.Vote):
            name = "made-again"

        return Again

    make()
    second = make()
    assert method_class("made-again") is second
