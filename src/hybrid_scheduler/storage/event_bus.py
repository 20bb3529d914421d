"""Who wants to hear of new events: subscribers in this process, or in several through Redis.

A bus makes no promises. Messages get lost when Redis is away; `EventTail` notices and asks the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .redis_connection import FAILURES, TIMEOUT, Breaker, RedisAddress, close_quietly

_log = logging.getLogger(__name__)

EVENTS, COMMANDS, ANSWERS = "events", "commands", "answers"
Callback = Callable[[list[bytes]], None]

#: Lists of messages that may wait for Redis.
_MOST_WAITING = 256
#: A subscription that heard nothing asks for a sign of life, and gives up when none comes.
_SILENCE, _PATIENCE = 1.0, 2.0


class EventBus(Protocol):
    """`publish` and `subscribe` may be called from any thread, and do not wait."""

    kind: str

    @property
    def state(self) -> str:
        """ "ok" or "away"."""

    def publish(self, events: Sequence[bytes], topic: str = EVENTS) -> None: ...

    def subscribe(self, callback: Callback, topic: str = EVENTS) -> Callable[[], None]:
        """`callback` is called in a thread of the bus and must be quick. Call what is returned to end it."""

    def close(self) -> None: ...


class _Subscribers:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[str, tuple[Callback, ...]] = {}

    def add(self, callback: Callback, topic: str) -> Callable[[], None]:
        with self._lock:
            self._callbacks[topic] = (*self._callbacks.get(topic, ()), callback)

        def remove() -> None:
            with self._lock:
                left = [each for each in self._callbacks.get(topic, ()) if each is not callback]
                self._callbacks[topic] = tuple(left)

        return remove

    def tell(self, events: Sequence[bytes], topic: str) -> None:
        for callback in self._callbacks.get(topic, ()):
            try:
                callback(list(events))
            except Exception:
                _log.exception("a subscriber of the event bus failed")


class LocalBus:
    """Within this process. Subscribers are called in the thread that publishes."""

    kind = "memory"
    state = "ok"

    def __init__(self) -> None:
        self._subscribers = _Subscribers()

    def publish(self, events: Sequence[bytes], topic: str = EVENTS) -> None:
        self._subscribers.tell(events, topic)

    def subscribe(self, callback: Callback, topic: str = EVENTS) -> Callable[[], None]:
        return self._subscribers.add(callback, topic)

    def close(self) -> None:
        self._subscribers = _Subscribers()


class RedisBus:
    """Through Redis, with a thread of its own, so that neither the writer nor the server ever waits for it.

    Redis does not separate channels by its numbered databases; here the number is part of the channel's name, so
    that two installations can share one Redis.
    """

    kind = "redis"

    def __init__(self, address: RedisAddress, prefix: str = "hybrid-scheduler") -> None:
        self._address = address
        self._prefix = f"{prefix}:{address.db}:"
        self._subscribers = _Subscribers()
        self._breaker = Breaker(address.redacted)
        self._waiting: asyncio.Queue[tuple[str, list[bytes]]] = asyncio.Queue(_MOST_WAITING)
        self._listening = asyncio.Event()
        #: Set while a subscription is in place.
        self.listens = threading.Event()
        self._stop = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="redis-bus", daemon=True)
        self._thread.start()

    @property
    def state(self) -> str:
        return self._breaker.state

    def publish(self, events: Sequence[bytes], topic: str = EVENTS) -> None:
        with contextlib.suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(self._put, topic, list(events))

    def subscribe(self, callback: Callback, topic: str = EVENTS) -> Callable[[], None]:
        remove = self._subscribers.add(callback, topic)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._listening.set)
        return remove

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(5.0)

    # ---------------------------------------------------------------- the bus's thread

    def _put(self, topic: str, events: list[bytes]) -> None:
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

                async def send(topic: str = topic, events: list[bytes] = events) -> None:
                    pipeline = client.pipeline(transaction=False)
                    for event in events:
                        pipeline.publish(self._prefix + topic, event)
                    await pipeline.execute()

                await self._breaker.call(send, None)
        finally:
            await close_quietly(client)

    async def _listener(self) -> None:
        await self._listening.wait()
        delay = 0.1
        while True:
            client = self._address.client()
            subscription = client.pubsub()
            try:
                async with asyncio.timeout(2 * TIMEOUT):
                    await subscription.subscribe(*(self._prefix + topic for topic in (EVENTS, COMMANDS, ANSWERS)))
                delay = 0.1
                await self._listen(subscription)
            except FAILURES as error:
                self._breaker.broken(error)
            finally:
                self.listens.clear()
                await close_quietly(subscription)
                await close_quietly(client)
            await asyncio.sleep(delay)
            delay = min(2 * delay, 1.0)

    async def _listen(self, subscription: Any) -> None:
        heard, asked = time.monotonic(), False
        while True:
            message = await subscription.get_message(timeout=_SILENCE / 2)
            now = time.monotonic()
            if message is not None:
                heard, asked = now, False
                self._take(message)
            elif now - heard > _PATIENCE:
                raise TimeoutError("the subscription fell silent")
            elif now - heard > _SILENCE and not asked:
                asked = True
                await subscription.ping()

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "subscribe":
            self.listens.set()
            self._breaker.works()
        elif message["type"] == "message":
            topic = message["channel"].decode().removeprefix(self._prefix)
            self._subscribers.tell([message["data"]], topic)
