"""One build for all tests, and environments that are removed again: they are gigabytes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.release.place import ROOT, Dist, Place, build


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hushtune-release-") as made:
        yield Path(made)


@pytest.fixture(scope="session")
def dist(folder: Path) -> Dist:
    return build(ROOT, folder / "dist")


@pytest.fixture(scope="session")
def core(dist: Dist, folder: Path) -> Place:
    """The wheel and what it needs, no extras."""
    place = Place(folder / "core")
    place.install(str(dist.wheel))
    return place


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Place]:
    """For one extra."""
    with tempfile.TemporaryDirectory(prefix="hushtune-extra-") as made:
        yield Place(Path(made) / "place")
