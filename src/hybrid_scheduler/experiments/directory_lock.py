"""One run per folder: a second one is refused at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..core import InvalidInputError
from ..core.atomic_files import exclusive_lock


@contextmanager
def directory_lock(lock: Path, folder: Path) -> Iterator[None]:
    """Hold `lock`, the file that stands for `folder`, or raise `InvalidInputError`."""
    with exclusive_lock(lock) as held:
        if not held:
            raise InvalidInputError("--out", "a folder that no other run is writing to", str(folder))
        yield
