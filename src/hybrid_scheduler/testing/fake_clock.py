"""Manual clock for tests, so that nothing has to sleep."""

from __future__ import annotations

import threading

#: Longest wait for the other thread, in seconds; after that it counts as dead.
_TIMEOUT_S = 60.0


class FakeClock:
    """Clock whose time passes only in `advance`, in step with the one thread that waits on it.

    `advance` lets that thread run until it waits, then sets the time to the end of that wait, and so on. Its
    behaviour therefore depends on the clock alone, never on the speed of the machine.

    Parameters
    ----------
    start
        Initial time in seconds.
    tick
        Shortest duration of a wait in seconds.
    """

    def __init__(self, start: float = 1_000_000.0, tick: float = 0.001) -> None:
        self._now, self._tick = start, tick
        self._changed = threading.Condition()
        self._deadline: float | None = None  # end of the thread's current wait
        self._wake = threading.Event()

    def now(self) -> float:
        """Return the time in seconds."""
        return self._now

    def unix(self) -> float:
        """Return the time as seconds since 1970."""
        return self._now

    def effort(self) -> float:
        """Return the time as a measure of computing time."""
        return self._now

    def wait(self, timeout: float, wake: threading.Event) -> None:
        """Wait until `timeout` seconds have passed or `wake` is set."""
        with self._changed:
            self._deadline, self._wake = self._now + max(timeout, self._tick), wake
            self._changed.notify_all()
        wake.wait()
        with self._changed:
            self._deadline = None

    def advance(self, seconds: float) -> None:
        """Advance the time by `seconds`; the thread does all that is due by then."""
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
        """Wait until the thread has nothing more to do at the current time."""
        with self._changed:
            self._idle()

    def _idle(self) -> None:
        def waiting() -> bool:
            return self._deadline is not None and not self._wake.is_set()

        if not self._changed.wait_for(waiting, _TIMEOUT_S):
            raise TimeoutError("the thread that waits on this clock is not running")
