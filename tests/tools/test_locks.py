"""locks/ fit pyproject.toml: a change of dependencies needs `make locks`. Nothing here needs a network."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import install
import locks
import oldest
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ABOUT = locks.project()
PROJECT = ABOUT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
HERE = {"python_version": "3.11", "python_full_version": "3.11.9", "sys_platform": "linux", "extra": ""}
HERE |= {"platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix"}
HERE |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}


def required(group: str) -> list[Requirement]:
    """What a lock is for, but for PyTorch; an extra may name others of hushtune."""
    if group == "build":
        return [Requirement(line) for line in ABOUT["build-system"]["requires"]]
    lines = PROJECT["dependencies"] if group == "core" else EXTRAS[group]
    found = []
    for wanted in map(Requirement, lines):
        if wanted.name == "hushtune":
            found += [one for extra in wanted.extras for one in required(extra)]
        elif wanted.name != locks.UNHASHED and (wanted.marker is None or wanted.marker.evaluate(HERE)):
            found.append(wanted)
    return found


def held(group: str) -> dict[str, locks.Pin]:
    """What installing with a lock gives."""
    return locks.read(group) if group in ("core", "build") else locks.read("core") | locks.read(group)


def test_every_extra_that_brings_something_has_a_lock_and_nothing_else_has() -> None:
    bring = {extra for extra, lines in EXTRAS.items() if required(extra) or any("torch" in line for line in lines)}
    assert set(locks.names()) == {"core", "build"} | bring
    assert set(EXTRAS) - bring == {"mhe"}  # 3.11 has no wheel of OpenFHE: `hushtune mhe setup` knows its digests


@pytest.mark.parametrize("group", locks.names())
def test_every_requirement_is_locked_to_a_version_it_accepts(group: str) -> None:
    found = held(group)
    for wanted in required(group):
        pin = found[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(pin.version), wanted


@pytest.mark.parametrize("group", locks.names())
def test_what_locked_packages_need_is_locked_too(group: str) -> None:
    """By the metadata of those that are installed here in the locked version."""
    found, seen = held(group), 0
    todo = [(canonicalize_name(wanted.name), frozenset(wanted.extras)) for wanted in required(group)]
    done: set[tuple[str, frozenset[str]]] = set()
    while todo:
        name, extras = todo.pop()
        if (name, extras) in done:
            continue
        done.add((name, extras))
        assert name in found, f"{group} lacks {name}"
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        if installed.version != found[name].version:
            continue
        seen += 1
        for one in map(Requirement, installed.requires or []):
            ways = [HERE | {"extra": extra} for extra in (extras or {""})]
            needed = one.marker is None or any(one.marker.evaluate(way) for way in ways)
            if needed and one.name != locks.UNHASHED:
                todo.append((canonicalize_name(one.name), frozenset(one.extras)))
    if distribution("numpy").version == locks.read("core")["numpy"].version:  # an environment made from the locks
        assert seen or group not in ("core", "test")


@pytest.mark.parametrize("group", locks.names())
def test_every_line_is_a_version_with_digests_and_names_no_place(group: str) -> None:
    text = (locks.LOCKS / f"{group}.txt").read_text()
    head = r"# .*\n" + ("" if group in ("core", "build") else r"-r core\.txt\n")
    line = r"[a-z0-9-]+==[0-9][0-9a-z.]*(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n"
    assert re.fullmatch(f"{head}(?:{line})+", text)
    assert "/" not in text.partition("\n")[2]
    assert f"{locks.UNHASHED}==" not in text
    assert "".join(pin.line(name) + "\n" for name, pin in locks.read(group).items()) in text


def test_one_environment_can_hold_all_locks() -> None:
    versions: dict[str, set[locks.Pin]] = {}
    for group in locks.names():
        for name, pin in held(group).items():
            versions.setdefault(name, set()).add(pin)
    assert len(versions) > 100
    assert {name for name, pins in versions.items() if len(pins) > 1} == set()


def test_torch_is_told_what_every_build_needs() -> None:
    said = locks.settings(ABOUT)
    assert f'version = "{EXTRAS["torch"][0].partition("==")[2]}"' in said
    assert {"jinja2", "networkx", "sympy", "fsspec"} <= set(locks.read("torch")) & set(locks.read("dpsgd"))
    assert not [name for name in locks.read("dpsgd") if name.startswith(("nvidia", "cuda", "triton"))]


def test_where_locks_apply_nothing_is_installed_without_a_digest_but_torch_and_this_folder() -> None:
    first, *others, last, check = install.commands(["test", "dpsgd"], by_lock=True)
    assert first[:5] == ["install", "--require-hashes", "--no-deps", "--only-binary", ":all:"]
    assert first[6::2] == [f"locks/{name}.txt" for name in ("build", "core", "test", "dpsgd")]
    assert others == [["install", "torch==2.13.0"]]
    assert last == ["install", "--no-deps", "--no-build-isolation", "--editable", "."]
    assert check == ["check"]
    assert len(install.commands(["test", "mhe"], by_lock=True)) == 3


def test_elsewhere_ranges_are_installed() -> None:
    assert install.commands([], by_lock=False) == [["install", "--editable", "."]]
    assert install.commands(["dev", "flower"], by_lock=False) == [["install", "--editable", ".[dev,flower]"]]


def test_a_pin_is_read_as_it_was_written() -> None:
    pin = locks.Pin("1.2", ("a" * 64, "b" * 64))
    assert locks.parsed(f"# head\n-r core.txt\n{pin.line('some-name')}\n") == {"some-name": pin}
    assert locks.parsed("some-name==1.2\n") == {}


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    lines = [*PROJECT["dependencies"], *EXTRAS["test"]]
    found = oldest.oldest(lines)
    assert len(found) == len(lines)
    for line, constraint in zip(lines, found, strict=True):
        name, _, version = constraint.partition("==")
        assert line.startswith(f"{name}>={version},<")
        assert Requirement(line).specifier.contains(version)
    with pytest.raises(SystemExit, match="of the form"):
        oldest.oldest(["numpy<3"])


def test_the_part_that_runs_with_the_oldest_versions_is_there() -> None:
    text = (locks.ROOT / "Makefile").read_text()
    (listed,) = re.findall(r"^QUICKLY := ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    paths = listed.replace("\\\n", " ").split()
    assert len(paths) > 8
    assert [path for path in paths if not (locks.ROOT / path).exists()] == []


def test_nothing_is_installed_past_the_locks() -> None:
    """But for what makes the locks, and the environment of the oldest versions."""
    lines = [line for line in (locks.ROOT / "Makefile").read_text().splitlines() if "pip install" in line]
    assert len(lines) == 2
    assert all("uv" in line or "--constraint" in line for line in lines)


def test_locks_are_written_anew_and_keep_what_fits_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv is not asked: what it would find is given."""
    kept = []
    digest = "0" * 64

    def resolve(work: Path, out: Path, extras: list[str], beside: list[str], pins: Path | None) -> dict[str, locks.Pin]:
        if pins is None:
            kept.append(locks.parsed(out.read_text()))
            assert set(extras) == set(EXTRAS)
            assert {*PROJECT["dependencies"], *ABOUT["build-system"]["requires"]} < set(beside)
        else:
            assert pins.read_text().splitlines()[0] == "base==1"
        assert 'name = "torch"' in (work / "uv.toml").read_text()
        names = [] if extras == ["mhe"] else extras or (["hatchling"] if "numpy>=2.0,<3" not in beside else [])
        return {name: locks.Pin("1", (digest,)) for name in ["base", *names]}

    monkeypatch.setattr(locks, "LOCKS", tmp_path / "locks")
    monkeypatch.setattr(locks, "resolve", resolve)
    locks.main(upgrade=False)
    (tmp_path / "locks" / "gone.txt").write_text(locks.Pin("2", (digest,)).line("gone") + "\n")
    locks.main(upgrade=False)
    assert locks.names() == sorted({"core", "build", *EXTRAS} - {"mhe"})
    assert locks.read("core") == {"base": locks.Pin("1", (digest,))}
    assert set(locks.read("build")) == {"base", "hatchling"}
    assert set(locks.read("flower")) == {"flower"}  # core's are in core.txt
    locks.main(upgrade=True)
    assert [set(found) for found in kept[::2]] == [set(), set()]
    assert {"base", "gone", "flower"} < set(kept[1])
