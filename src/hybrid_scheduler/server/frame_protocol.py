"""uvicorn's WebSocket protocol, extended to send prepared frames.

A broadcast sends the same bytes to every client, but ASGI frames a copy per connection, each in its own task. Here
a frame is built once and written to each transport. An unfragmented, uncompressed text frame does not change the
connection's state. The application finds the protocol in the scope's extensions; other servers and test clients do
not have it, and the stream then uses plain ASGI messages.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

EXTENSION = "hybrid_scheduler.frames"


def text_frame(payload: bytes) -> bytes:
    """Return the payload as one unmasked text frame (RFC 6455, 5.2)."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x81, size)
    elif size < 2**16:
        head = struct.pack("!BBH", 0x81, 126, size)
    else:
        head = struct.pack("!BBQ", 0x81, 127, size)
    return head + payload


class FrameProtocol(WebSocketsSansIOProtocol):
    """Protocol of one WebSocket connection, as uvicorn creates it."""

    #: Called when the transport accepts data again.
    on_writable: Callable[[], None] | None = None
    _abort_timer: asyncio.TimerHandle | None = None

    def handle_connect(self, event: Any) -> None:
        """Accept the connection and add this protocol to the scope's extensions."""
        super().handle_connect(event)
        # The application's task exists but has not run yet. A bad handshake has no scope.
        scope: Any = getattr(self, "scope", None)
        if scope is not None and not self.conn.extensions:
            scope["extensions"][EXTENSION] = self

    @property
    def can_write(self) -> bool:
        """True if the connection is open and its buffer is below the transport's high-water mark."""
        return self.is_open and self.writable.is_set()

    @property
    def is_open(self) -> bool:
        """True after the handshake and before either side closes."""
        return (
            self.handshake_complete
            and not self.close_sent
            and not self.disconnected
            and self.conn.state is State.OPEN
            and not self.transport.is_closing()
        )

    def write_frame(self, frame: bytes) -> None:
        """Write a prepared frame; check `can_write` first."""
        self.transport.write(frame)

    def resume_writing(self) -> None:
        """Continue after the transport's buffer has drained."""
        super().resume_writing()
        if self.on_writable is not None:
            self.on_writable()

    def close_within(self, timeout: float, code: int, reason: str) -> None:
        """Send a close frame after the buffered data, and abort the connection after `timeout` seconds."""
        if not self.is_open:
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        # close() alone is not enough: it waits until the peer has read everything, which may never happen.
        self._abort_timer = self.loop.call_later(timeout, self.transport.abort)
        self.close_timer = self.loop.call_later(timeout, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the timers of a connection that has ended."""
        if self._abort_timer is not None:
            self._abort_timer.cancel()
            self._abort_timer = None
        self.on_writable = None
        super().connection_lost(exc)
