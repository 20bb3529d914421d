"""The stream of events for a reader: in order, each once, none left out, wherever it is best had from."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator

from .batch_rows import seq_of
from .errors import DatabaseUnavailable
from .event_bus import EventBus
from .repository import Repository

_log = logging.getLogger(__name__)

_PAGE = 500
#: Messages that may wait for a slow reader; what is dropped comes from the database.
_MOST_WAITING = 1000


class EventReader:
    """Iterate over it: payloads of the events after a sequence number, by default after the newest.

    The bus brings them at once. The database is asked at the start, when a number is missing, and every `poll`
    seconds in which the bus says nothing. While the database is away, the reader waits.
    """

    def __init__(
        self, repository: Repository, bus: EventBus | None = None, after: int | None = None, poll: float = 1.0
    ) -> None:
        self._repository = repository
        self._bus = bus
        self._poll = poll
        self._waiting: deque[bytes] = deque(maxlen=_MOST_WAITING)
        self._news = asyncio.Event()
        self._closed = False
        #: The last event that was handed out.
        self.seq = after

    async def close(self) -> None:
        self._closed = True
        self._news.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()

        def arrived(events: list[bytes]) -> None:
            with contextlib.suppress(RuntimeError):  # the reader's loop has ended
                loop.call_soon_threadsafe(self._arrived, events)

        leave = self._bus.subscribe(arrived) if self._bus is not None else lambda: None
        try:
            ask = True
            while not self._over():
                if ask:
                    async for payload in self._stored():
                        yield payload
                while self._waiting and not self._over():
                    payload = self._waiting.popleft()
                    number = seq_of(payload)
                    if self.seq is None or number > self.seq + 1:  # one is missing: the database has it
                        async for stored in self._stored():
                            yield stored
                    elif number == self.seq + 1:
                        self.seq = number
                        yield payload
                self._news.clear()
                if self._waiting or self._over():
                    continue
                try:
                    await asyncio.wait_for(self._news.wait(), self._poll)
                    ask = False
                except TimeoutError:
                    ask = True
        finally:
            leave()

    def _over(self) -> bool:
        return self._closed

    def _arrived(self, events: list[bytes]) -> None:
        self._waiting.extend(events)
        self._news.set()

    async def _stored(self) -> AsyncIterator[bytes]:
        """What the database has beyond the last one."""
        while not self._over():
            try:
                page = await self._repository.events_after(2**62 if self.seq is None else self.seq, _PAGE)
            except DatabaseUnavailable as error:
                _log.debug("events wait: %s", error)
                return
            if self.seq is None:
                self.seq = page.last_seq
                return
            for payload in page.events:
                number = seq_of(payload)
                if self._over():
                    return
                if number > self.seq:
                    self.seq = number
                    yield payload
            if len(page.events) < _PAGE:
                return
