"""Files that appear whole or not at all, and locks that end with their process."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

#: Name of a temporary file, which `atomic_path` makes.
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")


@contextmanager
def atomic_path(target: Path, *, make_folders: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `target`, which replaces it when the block ends without an error.

    Unless `make_folders` is False, the folders above it are made. An error leaves the old file as it was and
    removes the temporary one. What was written is on the disk before the file gets its name.
    """
    if make_folders:
        target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield fresh
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(fresh, target)
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def write_atomically(target: Path, content: str | bytes) -> None:
    """Write a whole file in one step."""
    with atomic_path(target) as fresh:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder; no process may be writing there."""
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if _TEMPORARY.fullmatch(path.name) and path.is_file():
                path.unlink(missing_ok=True)


@contextmanager
def exclusive_lock(path: Path) -> Iterator[bool]:
    """Try to lock a file for this process; yields False where another process holds it.

    The operating system releases the lock however the process ends.
    """
    with path.open("a+") as file:
        yield _try_lock(file)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[str]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[str]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
