"""Where data sets come from: $HUSHTUNE_DATA, the user's cache, OpenML; and how their files are read.

What is fetched must have a known digest, when it comes and whenever it is read from the cache; a data set whose digest
is not known is not fetched. Files in $HUSHTUNE_DATA are their owner's: they are read as they are.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import threading
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushtune.client.rows import Rows, Split
from hushtune.core.errors import SettingError
from hushtune.core.files import archive, replace
from hushtune.core.observer import Observer
from hushtune.data.digests import content_digest

_ADULT_NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
_ADULT_TEST = 16_281


@dataclass(frozen=True)
class OpenML:
    """A data set there.

    Args:
        number: its own.
        size: bytes to be fetched, roughly, for the progress bar.
        write: makes the file's bytes from what scikit-learn's `fetch_openml` gives.
        digest: `content_digest` of that file, taken from a copy of the data set.
    """

    number: int
    size: int
    write: Callable[[Any], bytes]
    digest: str


@dataclass(frozen=True)
class File:
    """A data set that is one file.

    Args:
        name: of the file.
        read: makes rows of the file.
        openml: where to fetch it, if it can be fetched.
    """

    name: str
    read: Callable[[Path], Rows | Split]
    openml: OpenML | None = None

    def __call__(self, observer: Observer) -> Rows | Split:
        """The rows, fetched if need be."""
        path = self._found(observer)
        try:
            fetched = self.openml is not None and path.parent == cache()
            rows = self.read(path) if not fetched or self._known(path.read_bytes()) else None
        except (OSError, EOFError, ValueError, LookupError, zlib.error, zipfile.BadZipFile) as error:
            raise SettingError(
                f"{path} must be a complete {self.name}, but got {type(error).__name__}: {error}; replace or remove it"
            ) from None
        if rows is None:
            raise SettingError(
                f"{path} must have the digest that hushtune knows of this data set, but has another; remove it, or put "
                "it into a folder of your own and set HUSHTUNE_DATA to that"
            )
        return rows

    def _known(self, content: bytes) -> bool:
        """Whether the file is what it was when its digest was taken."""
        return self.openml is not None and content_digest(self.name, content) == self.openml.digest

    def _found(self, observer: Observer) -> Path:
        places = [Path(folder) for folder in (os.environ.get("HUSHTUNE_DATA"), cache()) if folder]
        for place in places:
            if (place / self.name).is_file():
                return place / self.name
        missing, advice = f"{self.name} is not in {' or in '.join(map(str, places))}", "put the file into a folder"
        if self.openml is None:
            raise SettingError(f"{missing}, and it cannot be fetched; {advice} and set HUSHTUNE_DATA to it")
        try:
            content = self.openml.write(_fetched(self.openml.number, self.openml.size, observer))
        except (OSError, ValueError) as error:
            raise SettingError(
                f"{missing}, and OpenML's data set {self.openml.number} "
                f"cannot be fetched ({error}); {advice} and set HUSHTUNE_DATA to it"
            ) from None
        if not self._known(content):
            raise SettingError(
                f"{missing}, and OpenML's data set {self.openml.number} must have the digest that hushtune knows, but "
                f"has another, so it was not kept; {advice} and set HUSHTUNE_DATA to it"
            )
        path = cache() / self.name
        replace(path, content)
        return path


def cache() -> Path:
    """The user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hushtune"


def _fetched(number: int, size: int, observer: Observer) -> Any:
    """scikit-learn's download, watched from beside: it shows nothing itself, so its files' growth is shown."""
    from sklearn.datasets import fetch_openml

    home = cache() / "openml"
    home.mkdir(parents=True, exist_ok=True)
    over = threading.Event()

    def watch(advance: Callable[[int], None]) -> None:
        seen = 0
        while not over.wait(0.5):
            now = min(size, sum(path.stat().st_size for path in home.rglob("*") if path.is_file()))
            advance(now - seen)
            seen = now

    with observer.phase(f"OpenML data set {number}, bytes", size) as advance:
        watcher = threading.Thread(target=watch, args=(advance,), daemon=True)
        watcher.start()
        try:
            return fetch_openml(data_id=number, as_frame=False, parser="liac-arff", data_home=str(home))
        finally:
            over.set()
            watcher.join()


# ---- pictures ----------------------------------------------------------------------------------------


def _pixels(x: NDArray[Any]) -> NDArray[np.float32]:
    """Bytes as numbers from -1 to 1."""
    return ((x.astype(np.float32) / 255 - 0.5) / 0.5).astype(np.float32)


def _grey(path: Path) -> Split:
    with np.load(path) as file:
        parts = [(file[f"X_{part}"][:, None], file[f"y_{part}"]) for part in ("train", "test")]
    return Split(*(Rows(_pixels(x), y.astype(np.int64)) for x, y in parts))


def _coloured(path: Path) -> Split:
    """Pictures are kept as differences of adjacent pixels and colours, modulo 256: they pack better so."""
    found = []
    with np.load(path) as file:
        for part in ("train", "test"):
            x = np.cumsum(np.cumsum(file[f"D_{part}"], 2, dtype=np.uint8), 3, dtype=np.uint8)
            x[:, 0] += x[:, 1]
            x[:, 2] += x[:, 1]
            found.append(Rows(_pixels(x), file[f"y_{part}"].astype(np.int64)))
    return Split(*found)


def _mnist_file(fetched: Any) -> bytes:
    """OpenML keeps the official order: 60,000 to train on, then 10,000 to test on."""
    x, y = fetched.data.reshape(-1, 28, 28).astype(np.uint8), fetched.target.astype(np.uint8)
    return archive(
        {"X_train": x[:60_000], "y_train": y[:60_000], "X_test": x[60_000:], "y_test": y[60_000:]}, pack=True
    )


# ---- Adult -------------------------------------------------------------------------------------------


def _adult(path: Path) -> Split:
    """One-hot columns, and numbers with mean 0 and deviation 1 over the training rows; y: income above 50K."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    columns = {name: np.array(values) for name, values in zip(rows[0], zip(*rows[1:], strict=True), strict=True)}
    train = columns.pop("split") == "train"
    income = np.char.startswith(columns.pop("income"), ">").astype(np.int64)
    parts = []
    for name, values in columns.items():
        if name in _ADULT_NUMBERS:
            numbers = values.astype(np.float64)
            parts.append(((numbers - numbers[train].mean()) / numbers[train].std())[:, None])
        else:
            parts.append(values[:, None] == np.unique(values)[None])
    x = np.hstack(parts).astype(np.float32)
    return Split(Rows(x[train], income[train]), Rows(x[~train], income[~train]))


def _adult_file(fetched: Any) -> bytes:
    """OpenML does not mark the official test rows: as many are drawn, by a fixed seed."""
    names = [name.replace("-", "_") for name in fetched.feature_names]
    kinds: Mapping[str, list[str]] = fetched.categories or {}
    columns = []
    for at, name in enumerate(fetched.feature_names):
        values = fetched.data[:, at].astype(np.float64)
        if kind := kinds.get(name):
            columns.append(["?" if np.isnan(v) else str(kind[int(v)]) for v in values])
        else:
            columns.append([f"{v:g}" if v < 1e5 else str(int(v)) for v in values])
    test = set(np.random.default_rng(0).permutation(len(fetched.target))[:_ADULT_TEST].tolist())
    marks = ["test" if row in test else "train" for row in range(len(fetched.target))]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*names, "income", "split"])
    writer.writerows(zip(*columns, fetched.target, marks, strict=True))
    return gzip.compress(text.getvalue().encode(), mtime=0)


# ---- small tables ------------------------------------------------------------------------------------


def _table(without: Sequence[int] = ()) -> Callable[[Path], Rows]:
    """Reads features and two classes, without some columns."""

    def read(path: Path) -> Rows:
        with np.load(path) as file:
            return Rows(np.delete(file["X"], list(without), axis=1).astype(np.float64), file["y"].astype(np.int64))

    return read


def _table_file(positive: str) -> Callable[[Any], bytes]:
    """Which of OpenML's two classes is 1."""

    def write(fetched: Any) -> bytes:
        y = fetched.target.astype(str) == positive
        return archive({"X": fetched.data.astype(np.float32), "y": y.astype(np.uint8)}, pack=True)

    return write


def _by_subject(subject: str) -> Callable[[Path], Rows]:
    """Reads features and classes, and whose each row is."""

    def read(path: Path) -> Rows:
        with np.load(path) as file:
            return Rows(file["X"].astype(np.float64), file["y"].astype(np.int64), file[subject].astype(np.int64))

    return read


def _digits(observer: Observer) -> Rows:
    """scikit-learn's handwritten digits: 1,797 images of 8x8 pixels in [0, 1], 10 classes."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return Rows(x / 16.0, y)


# taken from copies that docs/results was computed with; `day` of electricity counts from 0, as scikit-learn has it
DIGESTS = {
    "mnist": "b377dc24c89b9a1a221f18f03a603f978f7f05a662e149b9cfb709886e3649d3",
    "adult": "db1a50c579fc6f524492d34b768437514e5ec5c643bed38ff0132c3dd9c4ceb5",
    "eeg": "77f9ed2d4caee0ed8700af2578b03df4b36ecd1fde2c93cea19d667b97d18d31",
    "electricity": "8aa03f24b120801881c92604ef8b07e06dbd763461434dfacbe5d8ad1022143e",
    "heart": "85b7bb944a6f62acc417aaecc76bd94722e4d1dcd3a951056cfb71c4776336ee",
    "oil_spill": "6fef15c3b98c65973a1374130af80f37f0c35793eb3317b76681863fb110b8df",
    "pollen": "945fc0c819ae1a86f66f32e256a2c688d5fb8efea7b1ec511ed12e290471bf14",
    "sonar": "abcdd45312ab7a2167bb438c48fb337c2cae1e57040bf861ab0fb38500d75981",
}

SOURCES: dict[str, Callable[[Observer], Rows | Split]] = {
    "digits": _digits,
    "mnist": File("mnist.npz", _grey, OpenML(554, 15_500_000, _mnist_file, DIGESTS["mnist"])),
    "cifar10": File("cifar10_jpeg_delta.npz", _coloured),
    "emnist": File("emnist_byclass.npz", _grey),
    "svhn": File("svhn_crops_delta.npz", _coloured),
    "adult": File("adult.csv.gz", _adult, OpenML(1_590, 800_000, _adult_file, DIGESTS["adult"])),
    "eeg": File("eeg_eye_state.npz", _table(), OpenML(1_471, 300_000, _table_file("2"), DIGESTS["eeg"])),
    "electricity": File("electricity.npz", _table(), OpenML(151, 600_000, _table_file("UP"), DIGESTS["electricity"])),
    "heart": File("heart_statlog.npz", _table(), OpenML(53, 10_000, _table_file("present"), DIGESTS["heart"])),
    "oil_spill": File(
        "oil_spill.npz", _table(without=(0, 22)), OpenML(311, 100_000, _table_file("1"), DIGESTS["oil_spill"])
    ),  # number, constant
    "pc3": File("pc3.npz", _table()),
    "pollen": File("pollen.npz", _table(), OpenML(871, 70_000, _table_file("P"), DIGESTS["pollen"])),
    "sonar": File("sonar.npz", _table(), OpenML(40, 40_000, _table_file("Mine"), DIGESTS["sonar"])),
    "landmine": File("landmine.npz", _by_subject("field")),
    "har": File("har.npz", _by_subject("subject")),
}
