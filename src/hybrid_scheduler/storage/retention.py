"""Keeping only the newest tasks. Off unless asked for."""

from __future__ import annotations

from .store import Store


class Retention:
    """Says up to which task the history may go. Looks only now and then: finding the border costs a walk."""

    def __init__(self, keep_tasks: int) -> None:
        self.keep_tasks = keep_tasks
        self._every = max(100, keep_tasks // 100)
        self._new = self._every  # look once at the start
        self._upto: int | None = None

    def added(self, tasks: int) -> None:
        self._new += tasks

    async def excess(self, store: Store) -> int | None:
        """The newest task that is too many, or None."""
        if self._new >= self._every:
            self._new = 0
            found = await store.fetch(
                "SELECT task_id FROM tasks ORDER BY task_id DESC LIMIT 1 OFFSET ?", self.keep_tasks
            )
            self._upto = found[0][0] if found else None
        return self._upto

    def done(self) -> None:
        self._upto = None
