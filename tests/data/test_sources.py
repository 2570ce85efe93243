"""Data sets are found in $HUSHTUNE_DATA, then in the cache, then fetched; offline, one line says what is missing."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest

import hushtune as ht
from hushtune.data import load
from hushtune.data.digests import content_digest
from hushtune.data.sources import SOURCES, File


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HUSHTUNE_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(**options: Any) -> Any:
        raise URLError("no network")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)


def differences(x: np.ndarray) -> np.ndarray:
    """Pictures as their files have them: differences of colours and adjacent pixels, modulo 256."""
    apart = x.copy()
    apart[:, 0] -= x[:, 1]
    apart[:, 2] -= x[:, 1]
    for axis in (3, 2):
        apart = np.diff(apart, axis=axis, prepend=np.uint8(0)).astype(np.uint8)
    return apart


def known(name: str, fetched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has OpenML give this, and hushtune know it by its digest."""
    source = SOURCES[name]
    assert isinstance(source, File)
    assert source.openml is not None
    digest = content_digest(source.name, source.openml.write(fetched))
    openml = dataclasses.replace(source.openml, digest=digest)
    monkeypatch.setitem(SOURCES, name, dataclasses.replace(source, openml=openml))


def mnist_like(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    parts = {"train": 30, "test": 10}
    pictures = {f"X_{part}": rng.integers(0, 256, (n, 28, 28), dtype=np.uint8) for part, n in parts.items()}
    return pictures | {f"y_{part}": rng.integers(0, 10, n, dtype=np.uint8) for part, n in parts.items()}


def test_digits_need_no_download_and_get_test_rows() -> None:
    data = load("digits")
    assert (len(data.train), len(data.test)) == (1438, 359)
    assert data.train.X.max() == 1.0
    assert len(load("digits", test=0.5).test) == 898
    assert len(load("digits", rows=100).train) == 100
    np.testing.assert_array_equal(load("digits", seed=3).train.y, load("digits", seed=3).train.y)


def test_mnist_from_the_data_folder_and_from_the_cache(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offline(monkeypatch)
    np.savez(places / "data" / "mnist.npz", **mnist_like(0))
    data = load("mnist")
    assert data.train.X.shape == (30, 1, 28, 28)
    assert data.train.X.dtype == np.float32
    assert (data.train.X.min(), data.train.X.max()) == (-1.0, 1.0)
    (places / "cache" / "hushtune").mkdir(parents=True)
    np.savez(places / "cache" / "hushtune" / "mnist.npz", **mnist_like(1))
    np.testing.assert_array_equal(load("mnist").train.y, data.train.y)  # the folder comes first
    monkeypatch.delenv("HUSHTUNE_DATA")
    with pytest.raises(ht.SettingError, match=r"cache.*mnist.npz must have the digest .* but has another; remove it"):
        load("mnist")
    digest = content_digest("mnist.npz", (places / "cache" / "hushtune" / "mnist.npz").read_bytes())
    source = SOURCES["mnist"]
    assert isinstance(source, File)
    assert source.openml is not None
    openml = dataclasses.replace(source.openml, digest=digest)
    monkeypatch.setitem(SOURCES, "mnist", dataclasses.replace(source, openml=openml))
    np.testing.assert_array_equal(load("mnist").train.y, mnist_like(1)["y_train"])


def test_a_data_set_with_another_digest_is_fetched_in_vain(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = SimpleNamespace(data=np.ones((4, 2)), target=np.array(["Rock", "Mine", "Mine", "Rock"]))
    known("sonar", true, monkeypatch)
    false = SimpleNamespace(data=np.array([[1.0, 1.0]] * 3 + [[1.0, 1.001]]), target=true.target)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: false)
    with pytest.raises(
        ht.SettingError, match=r"OpenML's data set 40 must have the digest .* was not kept; put the file"
    ):
        load("sonar")
    assert not (places / "cache" / "hushtune" / "sonar.npz").exists()
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: true)
    assert len(load("sonar", test=0).train) == 4


def test_what_is_fetched_has_a_digest() -> None:
    fetched = [source.openml for source in SOURCES.values() if isinstance(source, File) and source.openml is not None]
    assert len({openml.digest for openml in fetched}) == len(fetched) == 8
    assert all(re.fullmatch("[0-9a-f]{64}", openml.digest) for openml in fetched)


def test_offline_says_what_is_missing_and_what_to_do(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offline(monkeypatch)
    with pytest.raises(ht.SettingError, match=r"mnist.npz is not in .*data or in .*cache.*554.*HUSHTUNE_DATA") as e:
        load("mnist")
    assert "\n" not in str(e.value)


def test_mnist_is_fetched_once_and_kept(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    rng = np.random.default_rng(0)
    fetched = SimpleNamespace(
        data=np.repeat(rng.integers(0, 256, (60_005, 1), np.uint8), 784, 1),
        target=rng.integers(0, 10, 60_005).astype(str),
    )
    known("mnist", fetched, monkeypatch)

    def fetch(**options: Any) -> Any:
        calls.append(options)
        (Path(options["data_home"]) / "part").write_bytes(b"x" * 1000)
        return fetched

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    first, second = load("mnist", rows=50, observer=ht.Bars()), load("mnist", rows=50)
    assert [call["data_id"] for call in calls] == [554]
    np.testing.assert_array_equal(first.train.X, second.train.X)
    assert len(first.test) == 5


def test_pictures_come_back_from_theirdifferences(places: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (6, 3, 32, 32), dtype=np.uint8)
    y = np.arange(6, dtype=np.uint8)
    packed = differences(x)
    np.savez(places / "data" / "cifar10_jpeg_delta.npz", D_train=packed, y_train=y, D_test=packed[:2], y_test=y[:2])
    data = load("cifar10")
    np.testing.assert_allclose(data.train.X, (x / 255 - 0.5) / 0.5, atol=1e-6)
    assert data.test.y.tolist() == [0, 1]


def test_emnist_and_svhn_are_read_like_their_kin(places: Path) -> None:
    np.savez(places / "data" / "emnist_byclass.npz", **mnist_like(0), label_char=np.arange(62))
    assert load("emnist").train.X.shape == (30, 1, 28, 28)
    x = np.random.default_rng(0).integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
    y, packed = np.arange(4, dtype=np.uint8), differences(x)
    np.savez(places / "data" / "svhn_crops_delta.npz", D_train=packed, y_train=y, D_test=packed[:2], y_test=y[:2])
    np.testing.assert_allclose(load("svhn").train.X, (x / 255 - 0.5) / 0.5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "file"),
    [("emnist", "emnist_byclass.npz"), ("svhn", "svhn_crops_delta.npz"), ("cifar10", "cifar10_jpeg_delta.npz")],
)
def test_what_cannot_be_fetched_is_said_to_be_missing(places: Path, name: str, file: str) -> None:
    with pytest.raises(ht.SettingError, match=rf"{file} is not in .*data or in .*cannot be fetched; .*HUSHTUNE_DATA"):
        load(name)


ADULT = ["age", "workclass", "fnlwgt", "education_num", "sex", "capital_gain", "capital_loss", "hours_per_week"]


def test_adult_is_encoded_and_standardised_on_its_training_rows(places: Path) -> None:
    rng, text = np.random.default_rng(0), io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*ADULT, "income", "split"])
    for row in range(40):
        numbers = rng.integers(1, 90, 6).tolist()
        income, split = ["<=50K", ">50K"][row % 2], ["train", "test"][row >= 30]
        writer.writerow([numbers[0], "?ab"[row % 3], *numbers[1:3], "FM"[row % 2], *numbers[3:], income, split])
    (places / "data" / "adult.csv.gz").write_bytes(gzip.compress(text.getvalue().encode()))
    data = load("adult")
    assert data.train.X.shape == (30, 6 + 3 + 2)
    assert data.test.y.tolist() == [0, 1] * 5
    np.testing.assert_allclose(data.train.X[:, 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(data.train.X[:, 0].std(), 1, atol=1e-6)
    assert set(np.unique(data.train.X[:, 1:4])) == {0.0, 1.0}


def test_adult_from_openml_has_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 16_281 + 100
    rng = np.random.default_rng(0)
    names = ["age", "workclass", "fnlwgt", "capital-gain"]
    columns = [rng.integers(17, 90, rows), rng.integers(0, 2, rows).astype(float), rng.integers(1, 999_999, rows)]
    columns[1][:5] = np.nan
    fetched = SimpleNamespace(
        feature_names=names,
        data=np.column_stack([*columns, np.full(rows, 99_999)]),
        categories={"workclass": ["Private", "State-gov"]},
        target=np.where(rng.random(rows) < 0.3, ">50K", "<=50K"),
    )
    known("adult", fetched, monkeypatch)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **options: fetched)
    with np.errstate(invalid="ignore"):
        data = load("adult")
    assert (len(data.train), len(data.test)) == (100, 16_281)
    assert data.train.X.shape[1] == 1 + 3 + 1 + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "imagenet"}, "data must be one of"),
        ({"name": "digits", "test": 1.5}, "test"),
        ({"name": "digits", "rows": 5_000}, "rows=5000"),
    ],
)
def test_bad_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ht.SettingError, match=message):
        load(**arguments)


def test_a_set_with_test_rows_of_its_own_takes_no_share(places: Path) -> None:
    np.savez(places / "data" / "mnist.npz", **mnist_like(0))
    with pytest.raises(ht.SettingError, match="test rows of its own"):
        load("mnist", test=0.3)


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("mnist", "mnist.npz", b""),
        ("mnist", "mnist.npz", b"some text"),
        ("mnist", "mnist.npz", b"PK\x03\x04 broken"),
        ("adult", "adult.csv.gz", b""),
        ("adult", "adult.csv.gz", gzip.compress(b"", mtime=0)),
        ("adult", "adult.csv.gz", gzip.compress(b"age,income\n1,>50K\n", mtime=0)),
        ("adult", "adult.csv.gz", gzip.compress(b"age,income,split\nold,>50K,train\n", mtime=0)),
        ("adult", "adult.csv.gz", gzip.compress(b"age,income,split\n1,>50K,train\n" * 99, mtime=0)[:-9]),
    ],
)
def test_a_damaged_file_is_named(places: Path, name: str, file: str, content: bytes) -> None:
    (places / "data" / file).write_bytes(content)
    with pytest.raises(ht.SettingError, match=f"{file} must be a complete {file}, but got"):
        load(name)


def test_tables_come_whole_and_shuffled(places: Path) -> None:
    x, y = np.arange(60.0).reshape(20, 3), np.repeat([0, 1], 10).astype(np.uint8)
    np.savez(places / "data" / "pollen.npz", X=x, y=y)
    data = load("pollen", test=0)
    assert (len(data.train), len(data.test)) == (20, 0)
    assert data.train.y.tolist() != y.tolist()
    np.testing.assert_array_equal(np.sort(data.train.X[:, 0]), x[:, 0])
    np.testing.assert_array_equal(data.train.y, data.train.X[:, 0] >= 30)
    assert len(load("pollen").test) == 4


def test_oil_spill_without_its_patch_number_and_its_constant(places: Path) -> None:
    x = np.arange(10 * 49.0).reshape(10, 49)
    np.savez(places / "data" / "oil_spill.npz", X=x, y=np.zeros(10, dtype=np.uint8))
    kept = sorted(load("oil_spill", test=0).train.X[0] % 49)
    assert kept == [column for column in range(49) if column not in (0, 22)]


def test_tables_are_fetched_with_their_classes(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched = SimpleNamespace(data=np.ones((4, 2)), target=np.array(["Rock", "Mine", "Mine", "Rock"]))
    known("sonar", fetched, monkeypatch)

    def fetch(**options: Any) -> Any:
        assert options["data_id"] == 40
        return fetched

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    assert sorted(load("sonar", test=0).train.y) == [0, 0, 1, 1]
    assert (places / "cache" / "hushtune" / "sonar.npz").exists()
