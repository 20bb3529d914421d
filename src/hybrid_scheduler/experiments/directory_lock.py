"""Lock of an output folder: one run per folder, and a second one is refused at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core import InvalidInputError
from ..core.atomic_files import exclusive_lock


@contextmanager
def directory_lock(lock: Path, folder: Path) -> Iterator[None]:
    """Hold `lock`, the file that stands for `folder`; the system releases it however the process ends.

    Raises
    ------
    InvalidInputError
        If another run holds the lock.
    """
    with exclusive_lock(lock) as held:
        if not held:
            raise InvalidInputError("--out", "a folder that no other run is writing to", str(folder))
        yield
