"""Says that kernels are being compiled, if that takes long enough for somebody to wonder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.event import Event, Listener, install_listener

NOTICE = "compiling kernels, once per machine …"
_PATIENCE = 1.0


class _Stopwatch(Listener):  # type: ignore[misc]
    """Adds up compile time; compilations nest, so only the outermost counts."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._depth = 0
        self._began = self._spent = 0.0
        self._told = False

    def on_start(self, event: Event) -> None:
        if self._depth == 0:
            self._began = time.monotonic()
        self._depth += 1
        self._look()

    def on_end(self, event: Event) -> None:
        self._look()
        self._depth -= 1
        if self._depth == 0:
            self._spent += time.monotonic() - self._began

    def _look(self) -> None:
        if not self._told and self._spent + time.monotonic() - self._began > _PATIENCE:
            self._told = True
            self._announce(NOTICE)


@contextmanager
def announced(announce: Callable[[str], None]) -> Iterator[Any]:
    """Within this block, tell once if compiling takes over a second. Loading from the cache does not count."""
    with install_listener("numba:compile", _Stopwatch(announce)) as stopwatch:
        yield stopwatch
