"""uvicorn's WebSocket protocol with a door for frames that were made elsewhere.

A broadcast is the same bytes for everybody, but ASGI makes every connection frame its own copy, in a task of its
own. Here the frame is built once and written to each transport. Nothing of the connection's state is touched by
that: an unfragmented, uncompressed text frame has none. The server offers itself to the application in the
scope's extensions; where it is not there (another server, a test client) the stream takes the ordinary way.
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
    """A whole, unmasked text message (RFC 6455, 5.2)."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x81, size)
    elif size < 2**16:
        head = struct.pack("!BBH", 0x81, 126, size)
    else:
        head = struct.pack("!BBQ", 0x81, 127, size)
    return head + payload


class FrameProtocol(WebSocketsSansIOProtocol):
    """What uvicorn runs for a connection that asks for a WebSocket."""

    on_writable: Callable[[], None] | None = None
    _cutter: asyncio.TimerHandle | None = None

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        # The application's task has been made but has not run yet. A bad handshake has no scope.
        scope: Any = getattr(self, "scope", None)
        if scope is not None and not self.conn.extensions:
            scope["extensions"][EXTENSION] = self

    @property
    def takes_frames(self) -> bool:
        """Open, with nothing waiting beyond the transport's high-water mark."""
        return self.is_open and self.writable.is_set()

    @property
    def is_open(self) -> bool:
        return (
            self.handshake_complete
            and not self.close_sent
            and not self.disconnected
            and self.conn.state is State.OPEN
            and not self.transport.is_closing()
        )

    def write_frame(self, frame: bytes) -> None:
        self.transport.write(frame)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_writable is not None:
            self.on_writable()

    def cut(self, code: int, reason: str, grace: float) -> None:
        """Send a close frame, behind whatever waits; who has not taken it after `grace` seconds is cut off."""
        if not self.is_open:
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        # Not just close(): a transport whose peer reads nothing would wait for ever to get rid of its bytes.
        self._cutter = self.loop.call_later(grace, self.transport.abort)
        self.close_timer = self.loop.call_later(grace, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cutter is not None:
            self._cutter.cancel()
            self._cutter = None
        self.on_writable = None
        super().connection_lost(exc)
