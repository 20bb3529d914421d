"""One run per folder: whoever comes second is told so at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..core import InvalidInputError


@contextmanager
def directory_lock(lock: Path, folder: Path) -> Iterator[None]:
    """Holds `lock`, the file that stands for `folder`. The system lets go of it however the process ends."""
    with lock.open("a+") as file:
        if not _locked(file):
            raise InvalidInputError("--out", "a folder that no other run is writing to", str(folder))
        yield


if sys.platform == "win32":
    import msvcrt

    def _locked(file: IO[str]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _locked(file: IO[str]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
