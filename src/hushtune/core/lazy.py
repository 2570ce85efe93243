"""Public names that are loaded when they are first used, so that importing hushtune is instant.

A package lists its public names once, in the stub beside its `__init__.py`: type checkers and editors read the stub
as it is, and `public_names` reads the same lines at run time.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Any


def public_names(
    package: str, file: str, extras: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package assigns to `__getattr__`, `__dir__` and `__all__`.

    Args:
        package: the package's `__name__`.
        file: its `__file__`; the stub lies beside it and holds lines such as `from package.module import Name as Name`.
        extras: names that need an optional dependency. They can be loaded, but `import *` leaves them out, as it does
            modules.
    """
    homes: dict[str, str] = {}
    for line in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom) and line.module is not None:
            homes |= {alias.asname or alias.name: line.module for alias in line.names}
    names = sorted(name for name, home in homes.items() if home != package and name not in extras)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home = homes[name]
        return import_module(f"{package}.{name}") if home == package else getattr(import_module(home), name)

    return load, lambda: names, names
