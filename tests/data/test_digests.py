"""A digest is of rows: their order and the way they are packed change nothing, one value does."""

from __future__ import annotations

import gzip
import io

import numpy as np

from hushtune.data.digests import content_digest


def table(x: np.ndarray, y: np.ndarray, pack: bool = False) -> bytes:
    buffer = io.BytesIO()
    (np.savez_compressed if pack else np.savez)(buffer, X=x, y=y)
    return buffer.getvalue()


def pictures(train: np.ndarray, test: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    labels = {f"y_{part}": np.zeros(len(x), np.uint8) for part, x in (("train", train), ("test", test))}
    np.savez(buffer, X_train=train, X_test=test, **labels)
    return buffer.getvalue()


def test_order_and_packing_change_nothing_and_one_value_does() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 3)).astype(np.float32), rng.integers(0, 2, 20)
    told = content_digest("a.npz", table(x, y))
    order = rng.permutation(20)
    assert content_digest("a.npz", table(x[order].astype(np.float64), y[order].astype(np.uint8), pack=True)) == told
    assert content_digest("a.npz", table(x, np.roll(y, 1))) != told
    assert content_digest("a.npz", table(x[:-1], y[:-1])) != told
    assert content_digest("a.npz", table(np.vstack([x, x[:1]]), np.append(y, y[0]))) != told
    x[3, 1] = np.nextafter(x[3, 1], np.float32(9))
    assert content_digest("a.npz", table(x, y)) != told


def test_a_row_that_moves_from_train_to_test_changes_it() -> None:
    x = np.random.default_rng(0).integers(0, 256, (10, 4, 4), np.uint8)
    assert content_digest("a.npz", pictures(x[:8], x[8:])) != content_digest("a.npz", pictures(x[:7], x[7:]))


def test_a_text_file_counts_without_its_split() -> None:
    lines = ["age,income,split", "30,>50K,train", "40,<=50K,test"]

    def told(*lines: str) -> str:
        return content_digest("a.csv.gz", gzip.compress("\r\n".join(lines).encode(), mtime=0))

    assert told(*lines) == told(lines[0], "40,<=50K,train", "30,>50K,test")
    assert told(*lines) != told(lines[0], "40,<=50K,train", "31,>50K,test")
    assert told(*lines) != told("years,income,split", *lines[1:])
