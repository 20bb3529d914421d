"""Protocol of the journal: where the live engine writes its batches.

Call order: `open` once, before anything else; then `append`, `forget` and `describe` as often as needed; `close` at
the end. Only the engine thread calls `append`. Only `open` and `close` wait for a disk.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Protocol

from ..core import HybridSchedulerError
from .batch_records import Batch, Recovered, RunLabels


class JournalUnavailable(HybridSchedulerError):
    """The journal cannot take anything now. Nothing is lost: what was not acknowledged is tried again."""


class JournalFull(HybridSchedulerError):
    """Too much waits to be stored. Look at `has_capacity` before `append`."""


class EngineBusy(HybridSchedulerError):
    """Another engine writes to this journal."""


class Journal(Protocol):
    """Store of batches, in order and each completely or not at all.

    It publishes the events of a batch once the batch is durable.
    """

    def open(self) -> Recovered:
        """Become the one engine of this journal, and return where the last one ended.

        Raises
        ------
        EngineBusy
            If another engine has it.
        """

    @property
    def has_capacity(self) -> bool:
        """False while so much waits to be stored that no new tasks should be decided."""

    @property
    def unsaved(self) -> int:
        """The number of batches that are not durable yet."""

    @property
    def unavailable(self) -> bool:
        """True while the last attempt to store something failed."""

    def append(self, batch: Batch) -> None:
        """Take a batch; never waits.

        Raises
        ------
        JournalFull
            If there is no capacity.
        """

    def forget(self, deleted: Future[int], run_id: str | None = None) -> None:
        """Delete every task with its results; runs and counters stay.

        With `run_id`, delete that run with all its rows instead, completely or not at all.

        `deleted` is running once the request is durable, and gets the number of tasks at the end. Until it is
        running it may be cancelled or get an error; then nothing was deleted.
        """

    def describe(self, run_id: str, labels: RunLabels, stored: Future[None]) -> None:
        """Replace name, tags and note of a run, after the batches that wait; never waits itself.

        `stored` is done once that is durable, or gets an error; then nothing was changed.
        """

    def close(self, timeout: float = 5.0) -> None:
        """Store what waits, within `timeout` seconds, and let another engine open the journal."""
