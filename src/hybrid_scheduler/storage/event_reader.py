"""Reader of the event stream: every event once and in order, from the event bus or the database."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator

from .batch_rows import payload_seq
from .database import DatabaseUnavailable
from .event_bus import EventBus
from .repository import Repository

_log = logging.getLogger(__name__)

_PAGE_SIZE = 500
#: Messages that may wait for a slow reader; dropped ones are read from the database.
_MAX_WAITING = 1000


class EventReader:
    """Asynchronous iterator over the payloads of events.

    The bus delivers events at once. The database is read at the start, when a number is missing, and after every
    `poll` seconds without a message. While the database is unavailable, the reader waits.

    Parameters
    ----------
    repository
        Source of stored events.
    bus
        Source of new events; None to poll the database alone.
    after
        Sequence number after which to begin; None for the newest.
    poll
        Seconds between reads of the database.
    """

    def __init__(
        self, repository: Repository, bus: EventBus | None = None, after: int | None = None, poll: float = 1.0
    ) -> None:
        self._repository = repository
        self._bus = bus
        self._poll = poll
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._changed = asyncio.Event()
        self._closed = False
        #: Number of the last event that was yielded.
        self.seq = after

    async def close(self) -> None:
        """End the iteration."""
        self._closed = True
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()

        def on_events(events: list[bytes]) -> None:
            with contextlib.suppress(RuntimeError):  # the reader's loop has ended
                loop.call_soon_threadsafe(self._enqueue, events)

        unsubscribe = self._bus.subscribe(on_events) if self._bus is not None else lambda: None
        try:
            read_database = True
            while not self._is_closed():
                if read_database:
                    async for payload in self._stored_events():
                        yield payload
                while self._waiting and not self._is_closed():
                    payload = self._waiting.popleft()
                    number = payload_seq(payload)
                    if self.seq is None or number > self.seq + 1:  # the missing ones are in the database
                        async for stored in self._stored_events():
                            yield stored
                    elif number == self.seq + 1:
                        self.seq = number
                        yield payload
                self._changed.clear()
                if self._waiting or self._is_closed():
                    continue
                try:
                    await asyncio.wait_for(self._changed.wait(), self._poll)
                    read_database = False
                except TimeoutError:
                    read_database = True
        finally:
            unsubscribe()

    def _is_closed(self) -> bool:
        return self._closed

    def _enqueue(self, events: list[bytes]) -> None:
        self._waiting.extend(events)
        self._changed.set()

    async def _stored_events(self) -> AsyncIterator[bytes]:
        """Yield the stored events after the last one that was yielded."""
        while not self._is_closed():
            try:
                page = await self._repository.events_after(2**62 if self.seq is None else self.seq, _PAGE_SIZE)
            except DatabaseUnavailable as error:
                _log.debug("events wait: %s", error)
                return
            if self.seq is None:
                self.seq = page.last_seq
                return
            for payload in page.events:
                number = payload_seq(payload)
                if self._is_closed():
                    return
                if number > self.seq:
                    self.seq = number
                    yield payload
            if len(page.events) < _PAGE_SIZE:
                return
