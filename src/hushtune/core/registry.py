"""Classes by name: hushtune's own, and those of whoever else defines one or installs a package that does."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from hushtune.core.errors import SettingError

_Kind = TypeVar("_Kind")
_OWN = ("hushtune.methods.", "hushtune.seals.")  # what may be named in a study; those of conformance suites may not


class Registry(Generic[_Kind]):
    """One kind of class, found by its key.

    A key comes from a study, a message or somebody's result.json, so it only ever selects: which module is imported is
    said by the entry points of installed packages, and so by whoever installed them.

    Args:
        what: one such class, in a word.
        own: the module that imports all of hushtune's own; it is imported when a class is first looked for.
        group: of the entry points by which an installed package says which it has; None: there are none.
    """

    def __init__(self, what: str, own: str, group: str | None = None) -> None:
        self._known: dict[Any, type[_Kind]] = {}
        self._what, self._own, self._group = what, own, group

    @property
    def known(self) -> Mapping[Any, type[_Kind]]:
        """All that were imported, hushtune's own among them."""
        import_module(self._own)
        return self._known

    def claim(self, key: Any, kind: type[_Kind]) -> None:
        """Makes a class known. The last one of a key counts, but a key of hushtune's own is nobody else's."""
        names = [f"{one.__module__}.{one.__qualname__}" for one in (self._known.get(key, kind), kind)]
        if names[0] != names[1] and any(name.startswith("hushtune.") for name in names):
            raise SettingError(f"names must differ, but {names[0]} and {names[1]} are both called {key!r}: rename one")
        self._known[key] = kind

    def find(self, key: Any) -> type[_Kind]:
        """The class of a key: one that was imported, or else one that an installed package has."""
        if isinstance(key, str) and key in self.known:
            return self.known[key]
        installed = {point.name: point for point in entry_points(group=self._group)} if self._group else {}
        if not isinstance(key, str) or key not in installed:
            own = {name for name, kind in self.known.items() if kind.__module__.startswith(_OWN)}
            raise SettingError(f"{self._what} must be one of {sorted(own | set(installed))}, but got {key!r}")
        point = installed[key]
        try:
            point.load()
        except Exception as error:  # whatever the package raises
            raise SettingError(f"{self._what} '{key}' ({point.value}) cannot be imported: {error}") from None
        if key not in self.known:
            raise SettingError(f"entry point '{key}' must lead to a {self._what} of that name, but got {point.value}")
        return self.known[key]
