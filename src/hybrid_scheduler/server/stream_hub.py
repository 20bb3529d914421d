"""Broadcast of the live stream: every event to every client, each event encoded once.

The server never waits for a client. A connection that accepts data gets the frame at once; otherwise up to 64
messages are queued. If the queue overflows, or the connection accepts nothing for too long, it is closed with code
1013. A slow reader therefore affects only itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from ..storage.batch_rows import EventPayload
from .published_stream import PublishedFormat
from .uvicorn_protocols import FrameProtocol, text_frame

_MAX_QUEUED = 64
#: Seconds for which a connection may accept nothing while messages wait, and then for its close frame.
_SEND_TIMEOUT_S = 15.0
_CLOSE_TIMEOUT_S = 5.0
_GOING_AWAY = 1001
_TRY_AGAIN_LATER = 1013


class StreamHub:
    """All clients of `/ws`, on one event loop; other threads use `publish_from_thread`.

    Parameters
    ----------
    max_clients
        Largest number of clients.
    max_queued
        Messages that may wait for one client.
    send_timeout
        Seconds after which a client that accepts nothing is dropped.
    close_timeout
        Seconds that a client gets to accept its close frame.
    """

    def __init__(
        self,
        *,
        max_clients: int = 500,
        max_queued: int = _MAX_QUEUED,
        send_timeout: float = _SEND_TIMEOUT_S,
        close_timeout: float = _CLOSE_TIMEOUT_S,
    ) -> None:
        self.max_clients = max_clients
        self.max_queued = max_queued
        self.send_timeout = send_timeout
        self.close_timeout = close_timeout
        self.clients: set[Client] = set()
        #: Number of the newest published event; a client that joins now gets every event after it.
        self.last_seq = 0
        self.sent = 0
        self.dropped = 0
        self.closing = False
        self._published = PublishedFormat()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the loop on which clients are served."""
        self._loop = loop

    def publish_from_thread(self, payloads: list[EventPayload]) -> None:
        """Publish events from any thread; does nothing once the loop is closed."""
        loop = self._loop
        if loop is None:  # not serving yet, so there are no clients
            self.publish(payloads)
            return
        if loop.is_closed():
            return
        try:
            loop.call_soon_threadsafe(self.publish, payloads)
        except RuntimeError:  # it closed in between
            return

    def publish(self, payloads: Iterable[EventPayload]) -> None:
        """Send events to every client, in order and each once. Call it on the loop's own thread."""
        for payload in payloads:
            if payload.seq <= self.last_seq:
                continue
            self.last_seq = payload.seq
            self.sent += len(self.clients)
            own = text_frame(payload.content)
            wanted = any(client.published for client in self.clients)
            converted = self._published.convert(payload.content) if wanted else None
            published = None if converted is None else text_frame(converted)
            for client in tuple(self.clients):
                frame = published if client.published else own
                if frame is not None:
                    client.offer(frame)

    async def close(self) -> None:
        """Close every connection because the server is stopping."""
        self.closing = True
        for client in tuple(self.clients):
            client.close(_GOING_AWAY, "the server is stopping")
        await asyncio.sleep(0)

    @property
    def is_full(self) -> bool:
        """True if no further client can join."""
        return self.closing or len(self.clients) >= self.max_clients

    @asynccontextmanager
    async def join(self, client: Client) -> AsyncIterator[None]:
        """Send events to this client for the duration of the block."""
        self.clients.add(client)
        try:
            yield
        finally:
            client.detach()


class Client:
    """One connection with its queue of frames, which are written directly to its transport.

    Parameters
    ----------
    hub
        The hub that it joins.
    connection
        Its WebSocket.
    published
        Whether updates have the field names of the original documents.
    """

    def __init__(self, hub: StreamHub, connection: FrameProtocol, *, published: bool = False) -> None:
        self.hub = hub
        self.published = published
        self.waiting: deque[bytes] = deque()
        self.hello_sent = False
        self.detached = False
        self._timer: asyncio.TimerHandle | None = None
        self._connection = connection
        connection.on_writable = self.flush

    def offer(self, frame: bytes) -> None:
        """Send the frame now, or queue it until the connection accepts data again."""
        if self.hello_sent and not self.waiting and self._connection.can_write:
            self._connection.write_frame(frame)
            return
        if len(self.waiting) >= self.hub.max_queued:
            self.drop()
            return
        self.waiting.append(frame)
        self._start_timer()

    def send_hello(self, hello: bytes) -> None:
        """Send the first message; the events queued meanwhile follow."""
        self.hello_sent = True
        self.waiting.appendleft(text_frame(hello))
        self.flush()

    def flush(self) -> None:
        """Send as much as the connection accepts. Progress restarts the timeout."""
        if not self.hello_sent or self.detached:
            return
        progressed = False
        while self.waiting and self._connection.can_write:
            self._connection.write_frame(self.waiting.popleft())
            progressed = True
        if progressed or not self.waiting:
            self._stop_timer()
        if self.waiting:
            self._start_timer()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.hub.send_timeout, self.drop)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def drop(self) -> None:
        """Close the connection because the client is too slow."""
        if not self.detached:
            self.hub.dropped += 1
            self.close(_TRY_AGAIN_LATER, "too slow")

    def close(self, code: int, reason: str) -> None:
        """Detach the client and close its connection."""
        if not self.detached:
            self.detach()
            self._connection.close_within(self.hub.close_timeout, code, reason)

    def detach(self) -> None:
        """Leave the hub and discard queued messages."""
        self.detached = True
        self.hub.clients.discard(self)
        self.waiting.clear()
        self._stop_timer()
