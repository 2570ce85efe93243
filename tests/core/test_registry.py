from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

import hushtune as ht
from hushtune.core import registry
from hushtune.core.registry import Registry


def made(name: str, module: str = "somewhere") -> type[Any]:
    return type(name, (), {"__module__": module})


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Registry[Any]:
    """One class of hushtune's own, "ball"; nothing is installed."""
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    toys: Registry[Any] = Registry("toy", own="hushtune.core.checks", group="hushtune.toys")
    toys.claim("ball", made("Ball", "hushtune.methods.ball"))
    return toys


def install(monkeypatch: pytest.MonkeyPatch, **points: str) -> list[str]:
    """Entry points by name; the groups that were looked up."""
    groups: list[str] = []

    def entry_points(group: str) -> list[EntryPoint]:
        groups.append(group)
        return [EntryPoint(name, value, group) for name, value in points.items()]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    return groups


def test_a_class_that_was_imported_is_found_without_a_look_at_what_is_installed(
    toys: Registry[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = install(monkeypatch, ball="evil:Ball")
    kite = made("Kite")
    toys.claim("kite", kite)
    assert toys.find("kite") is kite
    assert toys.find("ball").__module__ == "hushtune.methods.ball"
    assert groups == []


@pytest.mark.parametrize("key", ["os:system", "os.system", "", None, 3, ["ball"], {"name": "ball"}])
def test_a_key_only_selects_and_never_names_what_is_imported(toys: Registry[Any], key: Any) -> None:
    with pytest.raises(ht.SettingError) as caught:
        toys.find(key)
    assert str(caught.value) == f"toy must be one of ['ball'], but got {key!r}"


def test_an_installed_package_is_imported_when_its_class_is_first_asked_for(
    toys: Registry[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kite, module = made("Kite", "kites"), ModuleType("kites")
    module.__getattr__ = lambda name: toys.claim("kite", kite) or kite  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "kites", module)
    groups = install(monkeypatch, kite="kites:Kite")
    assert "kite" not in toys.known
    assert toys.find("kite") is kite
    assert groups == ["hushtune.toys"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module_here:Kite", r"^toy 'kite' \(no_such_module_here:Kite\) cannot be imported: No module named"),
        ("json:loads", "^entry point 'kite' must lead to a toy of that name, but got json:loads$"),
    ],
)
def test_a_package_that_does_not_keep_its_word_is_refused_by_name(
    toys: Registry[Any], monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    install(monkeypatch, kite=value)
    with pytest.raises(ht.SettingError, match=message):
        toys.find("kite")
    with pytest.raises(ht.SettingError, match=r"one of \['ball', 'kite'\], but got 'car'"):
        toys.find("car")


def test_a_key_of_hushtunes_own_is_nobody_elses(toys: Registry[Any]) -> None:
    message = "hushtune.methods.ball.Ball and somewhere.Ball are both called 'ball': rename one"
    with pytest.raises(ht.SettingError, match=message):
        toys.claim("ball", made("Ball"))
    toys.claim("kite", made("Kite"))
    with pytest.raises(ht.SettingError, match="are both called 'kite'"):
        toys.claim("kite", made("Kite", "hushtune.methods.kite"))
    assert toys.find("ball").__module__ == "hushtune.methods.ball"


def test_the_last_of_somebody_elses_counts_so_that_a_notebook_cell_can_be_run_again(toys: Registry[Any]) -> None:
    first, second = made("Kite", "__main__"), made("Kite", "__main__")
    toys.claim("kite", first)
    toys.claim("kite", second)
    assert toys.find("kite") is second


def test_classes_of_conformance_suites_are_not_offered_as_a_choice(toys: Registry[Any]) -> None:
    toys.claim("probe", made("Probe", "hushtune.testing.toys"))
    with pytest.raises(ht.SettingError, match=r"^toy must be one of \['ball'\], but got 'car'$"):
        toys.find("car")
