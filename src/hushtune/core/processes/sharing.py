"""Large arrays for workers (`core/processes/pool.py`): written once into memory that every worker maps.

A client's rows may go along with many tasks. Pickled each time, they would be copied for each task and each worker. A
worker that writes into a mapped array gets a copy of the pages that it writes to.
"""

from __future__ import annotations

import mmap
import os
import pickle
from typing import Any

LARGE = 1 << 20  # bytes; what is smaller is pickled with the rest


class Sharing:
    """What one call has shared so far; on a system without such memory, nothing."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[memoryview, int]] = {}  # views are held: so their places stay theirs

    def dumps(self, value: Any) -> tuple[bytes, list[int]]:
        """A value as bytes, and the descriptors of the arrays that it holds beside them."""
        import cloudpickle

        used: list[int] = []

        def with_the_rest(buffer: pickle.PickleBuffer) -> bool:
            view = buffer.raw()
            if view.nbytes < LARGE or not hasattr(os, "memfd_create"):
                return True
            used.append(self._descriptor(view))
            return False

        return cloudpickle.dumps(value, protocol=5, buffer_callback=with_the_rest), used

    def _descriptor(self, view: memoryview) -> int:
        import numpy as np

        place = np.frombuffer(view, dtype=np.uint8).ctypes.data, view.nbytes
        if place not in self._known:
            descriptor = os.memfd_create("hushtune")
            with open(descriptor, "wb", closefd=False) as file:
                file.write(view)
            self._known[place] = view, descriptor
        return self._known[place][1]

    def close(self) -> None:
        """Forgets all; who has mapped an array keeps it."""
        for _, descriptor in self._known.values():
            os.close(descriptor)
        self._known.clear()


def loads(content: bytes, descriptors: list[int]) -> Any:
    """The value that `Sharing.dumps` was given. Closes the descriptors."""
    arrays = []
    for descriptor in descriptors:
        arrays.append(mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY))
        os.close(descriptor)
    return pickle.loads(content, buffers=arrays)
