"""Notice that kernels are being compiled, shown where that takes more than a second.

A module of its own, because it loads numba, which `--help` must not do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.event import Event, Listener, install_listener

NOTICE = "compiling kernels, once per machine …"
#: Seconds of compiling until the notice.
_NOTICE_AFTER_S = 1.0


class _Stopwatch(Listener):  # type: ignore[misc]
    """Sum of compile time; compilations nest, so only the outermost counts."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._depth = 0
        self._began = self._spent = 0.0
        self._announced = False

    def on_start(self, event: Event) -> None:
        if self._depth == 0:
            self._began = time.monotonic()
        self._depth += 1
        self._check()

    def on_end(self, event: Event) -> None:
        self._check()
        self._depth -= 1
        if self._depth == 0:
            self._spent += time.monotonic() - self._began

    def _check(self) -> None:
        if not self._announced and self._spent + time.monotonic() - self._began > _NOTICE_AFTER_S:
            self._announced = True
            self._announce(NOTICE)


@contextmanager
def compile_notice(announce: Callable[[str], None]) -> Iterator[Any]:
    """Announce once if compiling takes over a second within this block; loading from the cache does not count."""
    with install_listener("numba:compile", _Stopwatch(announce)) as stopwatch:
        yield stopwatch
