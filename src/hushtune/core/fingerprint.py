"""One text per content, for cache keys. Equal content gives equal text in any process.

Fingerprints of data stay inside the client that holds the data: they are never sent or printed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from hushtune._version import __version__
from hushtune.core.errors import SettingError

_LIBRARIES = {"sklearn", "numpy", "scipy", "pandas", "torch", "hushtune", "builtins"}  # known by name
_OTHERS = _LIBRARIES - {"hushtune"}
_PLAIN = (str, bytes, int, float, bool, complex, type(None))


def fingerprint(value: Any) -> str:
    """A SHA-256 of the content of arrays, tables, objects, functions and plain values, as 64 hex digits.

    A function counts with its code, its closure, and the functions and plain values of its own module that it
    names; an object with its class's code and its fields. An object may say itself what it is through a method
    `fingerprint() -> str`.
    """
    feed = _Feed()
    feed.tag(__version__)
    feed(value)
    return feed.digest.hexdigest()


class _Feed:
    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._seen: dict[int, Any] = {}  # functions, classes and objects, kept alive so that ids stay theirs

    def tag(self, *texts: object) -> None:
        for text in texts:
            content = str(text).encode(errors="surrogatepass")
            self.digest.update(b"%d:" % len(content) + content)

    def __call__(self, value: Any) -> None:  # noqa: PLR0911, PLR0912 (one branch per kind of value)
        self.tag(type(value).__module__, type(value).__qualname__)
        if isinstance(value, _PLAIN):
            return self.tag(repr(value))
        if isinstance(value, np.ma.MaskedArray):
            return self.all([np.ma.getdata(value), np.ma.getmaskarray(value), value.fill_value], "masked")
        if isinstance(value, np.ndarray) and value.dtype != object:
            self.tag(value.dtype.str, value.shape)
            return self.digest.update(np.ascontiguousarray(value).tobytes())
        if isinstance(value, np.ndarray | list | tuple):
            items = value.ravel().tolist() if isinstance(value, np.ndarray) else value
            return self.all(items, np.shape(value) if isinstance(value, np.ndarray) else len(items))
        if isinstance(value, set | frozenset):
            return self.all(sorted(fingerprint(item) for item in value), len(value))
        if isinstance(value, Mapping):
            pairs = sorted(((fingerprint(key), item) for key, item in value.items()), key=lambda pair: pair[0])
            return self.all([part for pair in pairs for part in pair], len(pairs))
        if isinstance(value, CodeType):
            self.digest.update(value.co_code)
            return self.all([value.co_names, value.co_consts], "code")
        if hasattr(value, "columns") and hasattr(value, "to_numpy"):  # a pandas or polars table
            return self.all([(str(name), np.asarray(value[name])) for name in value.columns], len(value))
        if hasattr(value, "schema") and hasattr(value, "itercolumns"):  # a table of pyarrow's
            names, columns = value.schema.names, value.itercolumns()
            return self.all([(n, str(c.type), np.asarray(c)) for n, c in zip(names, columns, strict=True)], len(value))
        if isinstance(value, ModuleType):
            return self.tag(value.__name__)
        if hasattr(value, "__array__") and not isinstance(value, type):  # a tensor
            return self(np.asarray(value.detach() if hasattr(value, "detach") else value))
        if id(value) in self._seen:
            return self.tag("seen", list(self._seen).index(id(value)))
        self._seen[id(value)] = value
        if isinstance(value, MethodType):
            return self.all([value.__func__, value.__self__], "method")
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if callable(own := getattr(value, "fingerprint", None)):
            return self.tag(own())
        return self._object(value)

    def all(self, items: Any, label: object) -> None:
        self.tag(label)
        for item in items:
            self(item)

    def _function(self, function: FunctionType) -> None:
        self.tag(function.__qualname__)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        self.all([function.__code__, function.__defaults__, function.__kwdefaults__, cells], "function")
        for name in sorted(_names(function.__code__)):
            used = function.__globals__.get(name)
            own = isinstance(used, FunctionType | type) and used.__module__ == function.__module__
            if own or (isinstance(used, (*_PLAIN, list, tuple, dict)) and used is not None):
                self.all([used], name)

    def _class(self, kind: type) -> None:
        self.tag(kind.__module__, kind.__qualname__)
        if kind.__module__.split(".")[0] in _OTHERS:
            return
        for name, item in sorted(vars(kind).items()):
            if name == "__slotnames__":  # written into a class when one of its objects is first copied or pickled
                continue
            plain = item.__func__ if isinstance(item, staticmethod | classmethod) else item
            if isinstance(plain, property):
                plain = plain.fget
            if isinstance(plain, (FunctionType, list, tuple, dict, *_PLAIN)) and not name.startswith("__dataclass"):
                self.all([plain], name)
        for base in kind.__bases__:
            self(base)

    def _object(self, value: Any) -> None:
        if type(value).__module__.split(".")[0] not in _LIBRARIES:
            self(type(value))
        self.all(_content(value), "content")


def _names(code: CodeType) -> set[str]:
    """Global names a function uses, those of functions inside it included."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _content(value: Any) -> list[Any]:
    """What an object would be made of again: its fields, and what it holds beside them, as a kind of list does."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:
        raise SettingError(
            f"a {type(value).__name__} cannot be fingerprinted ({type(error).__name__}): "
            "give it a method `fingerprint() -> str`"
        ) from None
    if isinstance(reduced, str):
        return [reduced]
    _, arguments, *rest = reduced
    made_of = [part for part in arguments if part is not type(value)]
    return [*made_of, *(list(part) if isinstance(part, Iterator) else part for part in rest)]
