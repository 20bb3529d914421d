"""Event bus: publish and subscribe within this process, or between processes through Redis; and its reader.

Delivery is not guaranteed: messages are lost while Redis is unavailable. `EventReader` therefore reads the events
from the database, each once and in order, and the bus only tells it when.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self

from .batch_rows import EventPayload
from .database import DatabaseUnavailable
from .redis_cache import TIMEOUT_S, CircuitBreaker, RedisAddress, close_quietly, redis_errors
from .repository import Repository

_log = logging.getLogger(__name__)

#: Topics.
EVENTS = "events"
COMMANDS = "commands"
REPLIES = "answers"
_Callback = Callable[[list[EventPayload]], None]

#: Lists of messages that may wait for Redis.
_MAX_WAITING = 256
#: A silent subscription sends a ping after the first time and counts as lost after the second.
_PING_AFTER_S = 1.0
_LOST_AFTER_S = 2.0


class EventBus:
    """Base of the event buses. `publish` and `subscribe` are thread-safe and do not wait."""

    kind: str

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[str, tuple[_Callback, ...]] = {}

    @property
    def state(self) -> str:
        """State: "ok" or "unavailable"."""
        return "ok"

    def publish(self, events: Sequence[EventPayload], topic: str = EVENTS) -> None:
        """Send messages to all subscribers of a topic."""
        for callback in self._callbacks.get(topic, ()):
            try:
                callback(list(events))
            except Exception:
                _log.exception("a subscriber of the event bus failed")

    def subscribe(self, callback: _Callback, topic: str = EVENTS) -> Callable[[], None]:
        """Call `callback` for every message, in a thread of the bus; it must be quick.

        Returns
        -------
        Callable
            Ends the subscription.
        """
        with self._lock:
            self._callbacks[topic] = (*self._callbacks.get(topic, ()), callback)

        def remove() -> None:
            with self._lock:
                others = [other for other in self._callbacks.get(topic, ()) if other is not callback]
                self._callbacks[topic] = tuple(others)

        return remove

    def close(self) -> None:
        """End all subscriptions."""
        self._callbacks = {}


class LocalBus(EventBus):
    """Event bus within this process. Subscribers are called in the publishing thread."""

    kind = "memory"


class RedisBus(EventBus):
    """Event bus through Redis, in its own thread: neither the writer nor the server waits for Redis.

    Channels of Redis are shared by its numbered databases. The number is therefore part of the channel's name: two
    installations can share one Redis.

    Parameters
    ----------
    address
        The Redis server.
    prefix
        Prefix of all channels.
    """

    kind = "redis"

    def __init__(self, address: RedisAddress, prefix: str = "hybrid-scheduler") -> None:
        super().__init__()
        self._address = address
        self._prefix = f"{prefix}:{address.db}:"
        self._breaker = CircuitBreaker(address.redacted)
        self._waiting: asyncio.Queue[tuple[str, list[EventPayload]]] = asyncio.Queue(_MAX_WAITING)
        self._has_subscribers = asyncio.Event()
        #: Set while Redis has confirmed the subscription.
        self.subscribed = threading.Event()
        self._stop = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="redis-bus", daemon=True)
        self._thread.start()

    @property
    def state(self) -> str:
        """State: "ok" or "unavailable"."""
        return self._breaker.state

    def publish(self, events: Sequence[EventPayload], topic: str = EVENTS) -> None:
        """Send messages to all subscribers of a topic, in all processes."""
        with contextlib.suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(self._enqueue, topic, list(events))

    def subscribe(self, callback: _Callback, topic: str = EVENTS) -> Callable[[], None]:
        """Call `callback` for every message; the returned function ends that."""
        remove = super().subscribe(callback, topic)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._has_subscribers.set)
        return remove

    def close(self) -> None:
        """Stop the thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5.0)

    # ---------------------------------------------------------------- thread of the bus

    def _enqueue(self, topic: str, events: list[EventPayload]) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait((topic, events))

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        finally:
            self._loop.close()

    async def _main(self) -> None:
        workers = [asyncio.create_task(self._publisher()), asyncio.create_task(self._listener())]
        await self._stop.wait()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    async def _publisher(self) -> None:
        client = self._address.client()
        try:
            await self._breaker.call(lambda: client.ping(), None)
            while True:
                topic, events = await self._waiting.get()

                async def send(topic: str = topic, events: list[EventPayload] = events) -> None:
                    pipeline = client.pipeline(transaction=False)
                    for event in events:
                        pipeline.publish(self._prefix + topic, b"%d %b" % (event.seq, event.content))
                    await pipeline.execute()

                await self._breaker.call(send, None)
        finally:
            await close_quietly(client)

    async def _listener(self) -> None:
        await self._has_subscribers.wait()
        delay = 0.1
        while True:
            client = self._address.client()
            subscription = client.pubsub()
            try:
                async with asyncio.timeout(2 * TIMEOUT_S):
                    await subscription.subscribe(*(self._prefix + topic for topic in (EVENTS, COMMANDS, REPLIES)))
                delay = 0.1
                await self._listen(subscription)
            except redis_errors() as error:
                self._breaker.record_failure(error)
            finally:
                self.subscribed.clear()
                await close_quietly(subscription)
                await close_quietly(client)
            await asyncio.sleep(delay)
            delay = min(2 * delay, 1.0)

    async def _listen(self, subscription: Any) -> None:
        last_message = time.monotonic()
        pinged = False
        while True:
            message = await subscription.get_message(timeout=_PING_AFTER_S / 2)
            now = time.monotonic()
            if message is not None:
                last_message = now
                pinged = False
                self._dispatch(message)
            elif now - last_message > _LOST_AFTER_S:
                raise TimeoutError("the subscription fell silent")
            elif now - last_message > _PING_AFTER_S and not pinged:
                pinged = True
                await subscription.ping()

    def _dispatch(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self.subscribed.set()
            self._breaker.record_success()
        elif message["type"] == "message":
            topic = message["channel"].decode().removeprefix(self._prefix)
            number, _, content = message["data"].partition(b" ")
            with contextlib.suppress(ValueError):  # a message of another program
                super().publish([EventPayload(int(number), content)], topic)


# ------------------------------------------------------------------------------------------ reader


_PAGE_SIZE = 500


class BusSignal:
    """Wakes a waiting task on a message of the bus, or after `poll` seconds; without a bus, only then.

    Parameters
    ----------
    bus, topic
        Where the messages come from.
    poll
        Seconds to wait at most.
    """

    def __init__(self, bus: EventBus | None, topic: str, poll: float) -> None:
        self._bus = bus
        self._topic = topic
        self._poll = poll
        self._received = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        if self._bus is not None:
            loop = asyncio.get_running_loop()

            def on_message(_: list[EventPayload]) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(self._received.set)

            self._unsubscribe = self._bus.subscribe(on_message, self._topic)
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()

    async def wait(self) -> None:
        """Wait for a message that has come since the last wait."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._received.wait(), self._poll)
        self._received.clear()


class EventReader:
    """Asynchronous iterator over the payloads of events, which are read from the database in their order.

    The bus tells when there are new ones. While the database is unavailable, the reader waits.

    Parameters
    ----------
    repository
        Source of the events.
    bus
        Tells that there are new events; None to poll the database alone.
    after
        Sequence number after which to begin; None for the newest.
    poll
        Longest seconds between reads of the database.
    """

    def __init__(
        self, repository: Repository, bus: EventBus | None = None, after: int | None = None, poll: float = 1.0
    ) -> None:
        self._repository = repository
        self._signal = BusSignal(bus, EVENTS, poll)
        #: Number of the last event that was yielded.
        self.seq = after

    async def __aiter__(self) -> AsyncIterator[EventPayload]:
        with self._signal:
            while True:
                page = await self._page()
                for payload in page:
                    self.seq = payload.seq
                    yield payload
                if len(page) < _PAGE_SIZE:
                    await self._signal.wait()

    async def _page(self) -> list[EventPayload]:
        try:
            page = await self._repository.events_after(2**62 if self.seq is None else self.seq, _PAGE_SIZE)
        except DatabaseUnavailable as error:
            _log.debug("events wait: %s", error)
            return []
        self.seq = page.last_seq if self.seq is None else self.seq
        return page.events
