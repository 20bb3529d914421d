"""State that all intercepted functions of a program share: the helper, the choice, and what was saved."""

from __future__ import annotations

import os
import threading

from .device_choice import DeviceChoice
from .helper_client import HelperClient

#: Seconds that calls which a GPU could take over must have taken before a helper is started for them.
_START_AFTER_SECONDS = 0.1
#: Seconds to wait for another thread's call before a fork.
_FORK_SECONDS = 30.0
#: Seconds to wait for a helper if every call shall go there.
_PATIENCE_SECONDS = 60.0


class Session:
    """What the intercepted functions of a program share.

    Parameters
    ----------
    backend : str
        Name of the helper's backend.
    always : bool
        Whether every call that a variant covers goes to the helper; calls wait until it has started.

    Attributes
    ----------
    lock : Lock
        Held during a call in the helper; other threads' calls run on the CPU meanwhile.
    local : threading.local
        `inside` is whether the thread is in an intercepted call.
    is_idle : bool
        Whether all calls go to the library: in a forked process, and after the end.
    spent : float
        Seconds that the CPU took for calls that a variant covers.
    loaded : set of str
        Functions that the helper has run for this program; the first run of each includes loading.
    """

    def __init__(self, backend: str, *, always: bool) -> None:
        self.client = HelperClient(backend)
        self.choice = DeviceChoice(always=always)
        self.lock = threading.Lock()
        self.local = threading.local()
        self.is_idle = False
        self.spent = 0.0
        self.failure = ""
        self._always = always
        self.loaded: set[str] = set()
        self._forking = False
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_in_parent, after_in_child=self._after_in_child
        )

    def find_helper(self) -> bool:
        """Look for a helper, and start one if it pays; returns whether it is ready."""
        if self.client.is_ready or not self.lock.acquire(blocking=False):
            return self.client.is_ready
        try:
            start = self._always or self.spent >= _START_AFTER_SECONDS
            ready = self.client.connect(start=start, wait=_PATIENCE_SECONDS if self._always else 0.0)
            if ready:
                self.choice.connected(self.client.device, self.client.rows)
            return ready
        finally:
            self.lock.release()

    def fail(self, error: Exception) -> None:
        """Leave all calls to the library after an error of this package."""
        self.is_idle = True
        self.failure = f"{type(error).__name__}: {error}"

    def close(self, *, at_exit: bool = False) -> None:
        """Leave what was learned to the helper, and all further calls to the library."""
        if not self.is_idle:
            self.is_idle = True
            self.client.close(self.choice.durations.state(), at_exit=at_exit)

    # ---------------------------------------------------------------- forks

    def _before_fork(self) -> None:
        # A signal handler may fork during a call of its own thread, which would wait for ever.
        self._forking = not self.is_idle and self.lock.acquire(timeout=_FORK_SECONDS)
        if self._forking:
            self.client.make_private()

    def _after_in_parent(self) -> None:
        if self._forking:
            self.lock.release()

    def _after_in_child(self) -> None:
        self.is_idle = True
        self.client.abandon(forked=True)
