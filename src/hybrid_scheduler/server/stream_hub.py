"""The live stream: every event to every client, each event made into bytes once.

No client is ever waited for. A connection that takes data gets the frame at once; one that does not gets a queue
of 64 messages. A queue that overflows, or a connection that takes nothing for too long, is closed with 1013: a slow
reader hurts only itself.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from .frame_protocol import EXTENSION, FrameProtocol, text_frame

QUEUE = 64
#: Seconds a connection may take nothing while something waits for it, and then to take its close frame.
PATIENCE = 15.0
GRACE = 5.0
GOING_AWAY, TRY_AGAIN_LATER = 1001, 1013
_SEQ = re.compile(rb'"seq":\s?(\d+)')


class Message:
    """An event as its payload and, made when first asked for, as a frame."""

    __slots__ = ("_frame", "payload", "seq")

    def __init__(self, payload: bytes) -> None:
        found = _SEQ.search(payload)
        self.seq = int(found[1]) if found else 0
        self.payload = payload
        self._frame: bytes | None = None

    @property
    def frame(self) -> bytes:
        if self._frame is None:
            self._frame = text_frame(self.payload)
        return self._frame


class StreamHub:
    """All clients of `/ws`. Lives on one event loop; other threads use `publish_from_thread`."""

    def __init__(
        self, *, max_clients: int = 500, queue: int = QUEUE, patience: float = PATIENCE, grace: float = GRACE
    ) -> None:
        self.max_clients, self.queue, self.patience, self.grace = max_clients, queue, patience, grace
        self.clients: set[Client] = set()
        #: Of the newest event that went out; whoever joins now gets everything after it.
        self.last_seq = 0
        self.sent = 0
        self.dropped = 0
        self.closing = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Remember the loop on which clients are served."""
        self._loop = loop

    def publish_from_thread(self, payloads: list[bytes]) -> None:
        """From any thread. A loop that is gone has no clients."""
        loop = self._loop
        if loop is None:  # not serving yet: nobody is there to tell
            self.publish(payloads)
            return
        if loop.is_closed():
            return
        try:
            loop.call_soon_threadsafe(self.publish, payloads)
        except RuntimeError:  # it closed in between
            return

    def publish(self, payloads: Iterable[bytes]) -> None:
        """On the loop's own thread: to everybody, in order, nothing twice."""
        for payload in payloads:
            message = Message(payload)
            if message.seq:
                if message.seq <= self.last_seq:
                    continue
                self.last_seq = message.seq
            self.sent += len(self.clients)
            for client in tuple(self.clients):
                client.offer(message)

    async def close(self) -> None:
        """Tell every client that the server goes away."""
        self.closing = True
        for client in tuple(self.clients):
            client.leave(GOING_AWAY, "the server is stopping")
        await asyncio.sleep(0)

    @property
    def is_full(self) -> bool:
        return self.closing or len(self.clients) >= self.max_clients

    @asynccontextmanager
    async def join(self, client: Client) -> AsyncIterator[None]:
        self.clients.add(client)
        try:
            yield
        finally:
            client.end()

    @asynccontextmanager
    async def turns(self, key: str) -> AsyncIterator[None]:
        """One at a time for each key."""
        lock, waiting = self._turns.get(key, (asyncio.Lock(), 0))
        self._turns[key] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._turns.pop(key)
            if waiting > 1:
                self._turns[key] = (lock, waiting - 1)


class Client:
    """One connection: what both ways of sending share."""

    def __init__(self, hub: StreamHub) -> None:
        self.hub = hub
        self.waiting: deque[Message] = deque()
        self.greeted = False
        self.ended = False
        self._timer: asyncio.TimerHandle | None = None

    def offer(self, message: Message) -> None:
        """Send it now, or keep it until the connection takes data again."""
        if self.greeted and not self.waiting and self.try_send(message):
            return
        if len(self.waiting) >= self.hub.queue:
            self.drop()
            return
        self.waiting.append(message)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.hub.patience, self.drop)

    def greet(self, hello: bytes) -> None:
        """The first message; what came meanwhile follows."""
        self.greeted = True
        self.waiting.appendleft(Message(hello))
        self.flush()

    def flush(self) -> None:
        """As much as the connection takes. Progress buys new patience."""
        if not self.greeted or self.ended:
            return
        moved = False
        while self.waiting and self.try_send(self.waiting[0]):
            self.waiting.popleft()
            moved = True
        if self._timer is not None and (moved or not self.waiting):
            self._timer.cancel()
            self._timer = None
        if self.waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.hub.patience, self.drop)

    def drop(self) -> None:
        """Too slow."""
        if not self.ended:
            self.hub.dropped += 1
            self.leave(TRY_AGAIN_LATER, "too slow")

    def leave(self, code: int, reason: str) -> None:
        if not self.ended:
            self.end()
            self.send_close(code, reason)

    def end(self) -> None:
        """Forget the connection."""
        self.ended = True
        self.hub.clients.discard(self)
        self.waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def try_send(self, message: Message) -> bool:
        """False: not now."""
        raise NotImplementedError

    def send_close(self, code: int, reason: str) -> None:
        raise NotImplementedError


class FrameClient(Client):
    """On our own protocol: ready-made frames straight into the transport."""

    def __init__(self, hub: StreamHub, connection: FrameProtocol) -> None:
        super().__init__(hub)
        self._connection = connection
        connection.on_writable = self.flush

    def try_send(self, message: Message) -> bool:
        connection = self._connection
        if not connection.takes_frames:
            return False
        connection.write_frame(message.frame)
        return True

    def send_close(self, code: int, reason: str) -> None:
        self._connection.cut(code, reason, self.hub.grace)


class QueueClient(Client):
    """On any ASGI server: one task per client that empties the queue."""

    def __init__(self, hub: StreamHub, send: Any) -> None:
        super().__init__(hub)
        self._send = send
        self._next: asyncio.Task[None] | None = None

    def try_send(self, message: Message) -> bool:
        if self._next is not None:
            return False
        text = {"type": "websocket.send", "text": message.payload.decode()}
        self._next = asyncio.get_running_loop().create_task(self._sending(text))
        return True

    async def _sending(self, message: dict[str, Any]) -> None:
        try:
            await self._send(message)
        except Exception:
            self.end()
        finally:
            self._next = None
        self.flush()

    def send_close(self, code: int, reason: str) -> None:
        if self._next is not None:
            self._next.cancel()
        close = {"type": "websocket.close", "code": code, "reason": reason}
        self._next = asyncio.get_running_loop().create_task(self._sending(close))


def client_for(hub: StreamHub, scope: Any, send: Any) -> Client:
    connection = scope.get("extensions", {}).get(EXTENSION)
    return FrameClient(hub, connection) if isinstance(connection, FrameProtocol) else QueueClient(hub, send)
