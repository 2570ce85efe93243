"""One text per content, for cache keys. Equal content gives equal text in any process.

Fingerprints of data stay inside the client that holds the data: they are never sent or printed.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from hushtune.errors import SettingError


def fingerprint(value: Any) -> str:
    """A SHA-256 of the content of arrays, tables, dataclasses, functions and plain values, as 64 hex digits.

    An object may say itself what it is through a method `fingerprint() -> str`.
    """
    digest = hashlib.sha256()
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:  # noqa: PLR0912 (one branch per kind of value)
    def tag(text: str) -> None:
        digest.update(f"<{text}>".encode())

    tag(type(value).__qualname__)
    if callable(own := getattr(value, "fingerprint", None)) and not isinstance(value, type):
        tag(own())
    elif isinstance(value, np.ndarray) and value.dtype != object:
        tag(f"{value.dtype.str}{value.shape}")
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        for key, item in sorted(value.items(), key=lambda pair: repr(pair[0])):
            _feed(digest, key)
            _feed(digest, item)
    elif isinstance(value, set | frozenset):
        _feed(digest, sorted(map(repr, value)))
    elif isinstance(value, list | tuple):
        tag(str(len(value)))
        for item in value:
            _feed(digest, item)
    elif isinstance(value, FunctionType):
        tag(value.__qualname__)
        _feed(digest, value.__code__)
        _feed(digest, (value.__defaults__, value.__kwdefaults__))
        _feed(digest, [cell.cell_contents for cell in value.__closure__ or ()])
    elif isinstance(value, MethodType):
        _feed(digest, (value.__func__, value.__self__))
    elif isinstance(value, CodeType):
        digest.update(value.co_code)
        _feed(digest, (value.co_names, value.co_consts))
    elif isinstance(value, type):
        tag(f"{value.__module__}.{value.__qualname__}")
        _feed(digest, [item for _, item in sorted(vars(value).items()) if isinstance(item, FunctionType)])
    elif is_dataclass(value):
        _feed(digest, [getattr(value, field.name) for field in fields(value)])
    elif isinstance(value, str | bytes | int | float | bool | complex | None):
        tag(repr(value))
    elif hasattr(value, "columns") and hasattr(value, "to_numpy"):  # a pandas or polars table
        _feed(digest, [(str(name), np.asarray(value[name]).tolist()) for name in value.columns])
    else:
        digest.update(_pickled(value))


def _pickled(value: Any) -> bytes:
    stream = io.BytesIO()
    try:
        pickle.Pickler(stream, protocol=5).dump(value)
    except Exception as error:
        raise SettingError(
            f"a {type(value).__name__} cannot be fingerprinted ({type(error).__name__}): "
            "give it a method `fingerprint() -> str`"
        ) from None
    return stream.getvalue()
