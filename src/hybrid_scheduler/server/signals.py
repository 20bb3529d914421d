"""Signals that stop the server's process."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGBREAK] if hasattr(signal, "SIGBREAK") else []))


@contextlib.contextmanager
def stop_signals(stop: Callable[[int], None], numbers: Sequence[signal.Signals] = _STOP_SIGNALS) -> Iterator[None]:
    """Call `stop` on these signals for the duration of the block."""
    try:
        before = {number: signal.signal(number, lambda number, _: stop(number)) for number in numbers}
    except ValueError:  # signals can only be handled in the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def blocked_interrupts() -> Iterator[None]:
    """Leave Ctrl-C, for the duration of the block, to the process that began this one."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
