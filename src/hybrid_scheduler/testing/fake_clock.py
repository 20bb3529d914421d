"""A clock that a test moves by hand, so that nothing has to sleep."""

from __future__ import annotations

import threading

#: A test that waits longer than this for another thread has found a dead one.
_PATIENCE = 60.0


class FakeClock:
    """Time passes only in `advance`, and only as fast as the thread that lives by this clock can follow.

    `advance` lets that thread run until it waits, moves time to the moment it waits for, and so on: what it does
    depends on the clock alone, never on the machine. Every wait takes at least `tick` seconds.
    """

    def __init__(self, start: float = 1_000_000.0, tick: float = 0.001) -> None:
        self._now, self._tick = start, tick
        self._changed = threading.Condition()
        self._deadline: float | None = None  # of the thread that waits
        self._wake = threading.Event()

    def now(self) -> float:
        return self._now

    def unix(self) -> float:
        return self._now

    def effort(self) -> float:
        return self._now

    def wait(self, timeout: float, wake: threading.Event) -> None:
        with self._changed:
            self._deadline, self._wake = self._now + max(timeout, self._tick), wake
            self._changed.notify_all()
        wake.wait()
        with self._changed:
            self._deadline = None

    def advance(self, seconds: float) -> None:
        """Let so much time pass, and the thread do all that is due by then."""
        end = self._now + seconds
        while True:
            with self._changed:
                self._idle()
                if self._now >= end:
                    return
                assert self._deadline is not None
                self._now = min(end, self._deadline)
                self._deadline = None
                self._wake.set()

    def spend(self, seconds: float) -> None:
        """Let so much time pass in the middle of the thread's work; called by that thread itself."""
        self._now += seconds

    def settle(self) -> None:
        """Wait until the thread has nothing more to do at this moment."""
        with self._changed:
            self._idle()

    def _idle(self) -> None:
        def waiting() -> bool:
            return self._deadline is not None and not self._wake.is_set()

        if not self._changed.wait_for(waiting, _PATIENCE):
            raise TimeoutError("the thread that lives by this clock does not come back")
