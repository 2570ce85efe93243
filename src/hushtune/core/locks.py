"""Files that one process at a time may claim; a claim ends with its process, however that ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout


class Claim:
    """A file that only this object has, until it is closed or the process ends.

    A `with` statement closes it. Two claims exclude each other also within one process.

    Args:
        path: the file; its folder must be there. It is made, holds nothing, and stays.
        patience: seconds to wait for another holder.

    Raises:
        BlockingIOError: another claim holds it.
        OSError: it cannot be written, or the file system cannot lock.
    """

    def __init__(self, path: Path, patience: float = 0.0) -> None:
        self._lock = FileLock(path, thread_local=False)
        try:
            self._lock.acquire(timeout=patience)
        except Timeout:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path)) from None
        except NotImplementedError:
            raise _unable(path) from None
        if isinstance(self._lock, SoftFileLock):  # what filelock may fall back to: it would outlive a killed process
            self.close()
            raise _unable(path)

    def close(self) -> None:
        """Lets others claim the file."""
        self._lock.release(force=True)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _unable(path: Path) -> OSError:
    return OSError(errno.ENOTSUP, "its file system has no locks", str(path))
