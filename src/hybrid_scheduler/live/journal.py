"""Where the live engine writes: the protocol that a store implements.

Call order: `open` once, before anything else; then `append` and `forget` as often as needed; `close` at the end.
Only the engine's thread calls `append`. None of the calls but `open` and `close` waits for a disk.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from ..core import HybridSchedulerError
from .batch_records import Batch, Recovered


class JournalUnavailable(HybridSchedulerError):
    """The store cannot take anything now. Nothing is lost: what was not acknowledged is tried again."""


class JournalFull(HybridSchedulerError):
    """Too much waits to be stored. Whoever appends looks at `has_capacity` first."""


class EngineBusy(HybridSchedulerError):
    """Another engine writes to this store."""


class Journal(Protocol):
    """Keeps batches in order, each whole or not at all, and makes their events known once they are durable."""

    def open(self) -> Recovered:
        """Become the one engine of this store, and learn where the last one ended. Raises `EngineBusy`."""

    @property
    def has_capacity(self) -> bool:
        """False while so much waits to be stored that no new tasks should be made."""

    @property
    def unsaved(self) -> int:
        """Batches that are not durable yet."""

    @property
    def unavailable(self) -> bool:
        """True while the last attempt to store something failed."""

    def append(self, batch: Batch) -> None:
        """Take a batch over. Raises `JournalFull`; never waits."""

    def forget(self, deleted: Future[int]) -> None:
        """Delete every task with its results; `deleted` gets their number. Runs and counters stay."""

    def close(self, timeout: float = 5.0) -> None:
        """Store what waits, as long as that takes no longer than `timeout`, and let another engine in."""
