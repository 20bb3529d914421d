"""Folder for files that a program can make again.

A module of its own, because the cache of machine code and the store of run times share it and nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path


def user_cache_folder() -> Path:
    """Return the project's folder in the user's cache, which need not exist.

    Raises
    ------
    RuntimeError
        If XDG_CACHE_HOME is not set and the user has no home folder.
    """
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "hybrid-scheduler"
