"""uvicorn's HTTP and WebSocket protocols, extended by limits and by prepared frames.

uvicorn waits without limit for a request that was begun, and handles whatever frames a client sends. Here a
connection has deadlines, and its headers and frames are bounded, before any token is checked.

A broadcast sends the same bytes to every client, but ASGI frames a copy per connection, each in its own task. Here
a frame is built once and written to each transport. An unfragmented, uncompressed text frame does not change the
connection's state. The application finds the protocol in the scope's extensions.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from loguru import logger
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from .access_control import client_address, counted_address, is_inside, parse_networks
from .app_context import ConnectionLimits, ServerOptions
from .errors import ApiError, error_response

EXTENSION = "hybrid_scheduler.frames"
#: Frames that one client may send within a second, by kind.
_FRAMES_PER_S = {"frames": 50, "pings": 10, "fragments": 64}
_POLICY_VIOLATION = 1008
_TRY_AGAIN_LATER = 1013
#: Longest line of a WebSocket handshake; the library that reads it again accepts 8192 bytes.
_MAX_HANDSHAKE_LINE_LENGTH = 8000
#: Seconds for which the input of a refused connection is read and discarded. Closing with unread input would make
#: the operating system discard the response.
_DISCARD_S = 2.0
_LOG_INTERVAL_S = 1.0
#: Bytes on the wire for each byte of a body, at most: a chunk of one byte has five others.
_CHUNK_BYTES = 6


# ------------------------------------------------------------------------------------------ HTTP


class ConnectionGuard:
    """Number of open HTTP connections, per address and in all, and a log of refused ones.

    WebSockets do not count here: the stream's hub has its own limit.

    Parameters
    ----------
    options
        Limits and trusted proxies. Connections of a trusted proxy count for the address that it forwards.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.limits = options.connections
        self._proxies = parse_networks(options.trusted_proxies)
        self._open: Counter[str] = Counter()
        self._last_logged = float("-inf")
        self._unlogged = 0

    def admit(self, address: str) -> bool:
        """Count a new connection; return False if there are too many."""
        counted = counted_address(address)
        self._open[counted] += 1
        per_address = self._open[counted] <= self.limits.per_address or is_inside(address, self._proxies)
        return per_address and self._open.total() <= self.limits.in_all

    def client_of(self, peer: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Return the address of the client behind a connection, by what trusted proxies forward."""
        forwarded = b",".join(value for name, value in headers if name.lower() == b"x-forwarded-for")
        return client_address({"client": (peer,)}, {b"x-forwarded-for": forwarded}, self._proxies)

    @property
    def overloaded(self) -> bool:
        """True if connections that only wait for their refusal are too many as well."""
        return self._open.total() > self.limits.in_all * 1.2

    def release(self, address: str) -> None:
        """Forget a connection that has ended or become a WebSocket."""
        counted = counted_address(address)
        self._open[counted] -= 1
        if not self._open[counted]:
            del self._open[counted]

    def log(self, address: str, reason: str) -> None:
        """Log a refused connection; one line a second, so that an attack does not fill the disk."""
        now = time.monotonic()
        if now - self._last_logged < _LOG_INTERVAL_S:
            self._unlogged += 1
            return
        more = f" ({self._unlogged} more connections refused before)" if self._unlogged else ""
        self._last_logged = now
        self._unlogged = 0
        logger.warning(f"connection from {address} refused: {reason}{more}")


class GuardedHttpProtocol(HttpToolsProtocol):
    """Protocol of one HTTP connection with deadlines for headers, body and response."""

    def __init__(self, *arguments: Any, guard: ConnectionGuard, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._guard = guard
        self._limits: ConnectionLimits = guard.limits
        self._address: str | None = None
        self._refused = False
        self._in_headers = False
        self._in_body = False
        self._header_bytes = 0
        self._body_bytes = 0
        #: Bytes that a body may take on the wire, of the input at hand; and further bytes since the headers, which
        #: are extensions of chunks, and trailers.
        self._allowance = self._overhead = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._send_deadline: asyncio.TimerHandle | None = None
        self._abort_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection and wait for its first request."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else "local socket"
        if not self._guard.admit(self._address):
            if self._guard.overloaded:  # not even a response is affordable
                transport.abort()
            else:
                self._refuse(503, "too many connections")
            return
        self._set_deadline(self._limits.header_timeout, self._headers_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection and its timers."""
        self._release()
        for timer in (self._send_deadline, self._abort_timer):
            if timer is not None:
                timer.cancel()
        self._send_deadline = self._abort_timer = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse input, unless the connection was refused; then it is discarded."""
        if self._refused:
            return
        self._allowance = 0
        super().data_received(data)
        if self._in_headers and not self._refused:
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.header_bytes:
                self._refuse(431, f"more than {self._limits.header_bytes} bytes of headers")
        elif self._in_body and not self._refused:
            self._overhead = max(0, self._overhead + len(data) - self._allowance)
            if self._overhead > self._limits.header_bytes:
                self._refuse(431, f"more than {self._limits.header_bytes} bytes of trailers or chunk extensions")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; trailers, which come after a chunked body, are left out.

        They would join the headers that are checked already, and could name another host, origin or address.
        """
        if not self._in_body:
            super().on_header(name, value)

    def on_message_begin(self) -> None:
        """Start the time for the headers of a request."""
        super().on_message_begin()
        self._in_headers = True
        self._in_body = False
        self._header_bytes = 0
        self._set_deadline(self._limits.header_timeout, self._headers_late)

    def on_headers_complete(self) -> None:
        """Check the headers and start the time for the body."""
        self._in_headers = False
        self._in_body = True
        self._overhead = 0
        self._clear_deadline()
        if self._refused:
            return
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        longest = max((len(name) + len(value) + 4 for name, value in self.headers), default=0)
        if len(self.headers) > self._limits.headers:
            self._refuse(431, f"more than {self._limits.headers} headers")
        elif size > self._limits.header_bytes:
            self._refuse(431, f"more than {self._limits.header_bytes} bytes of headers")
        elif self.parser.should_upgrade() and max(longest, len(self.url) + 20) > _MAX_HANDSHAKE_LINE_LENGTH:
            self._refuse(
                431, f"a header of more than {_MAX_HANDSHAKE_LINE_LENGTH} bytes in a WebSocket's handshake"
            )
        elif not self._count_for_client():
            self._refuse(503, "too many connections")
        else:
            super().on_headers_complete()
            self._body_bytes = 0
            self._set_deadline(self._limits.body_timeout, self._body_late)

    def _count_for_client(self) -> bool:
        """Count the connection for the client that a trusted proxy forwards; return False if it has too many."""
        peer = self.client[0] if self.client else "local socket"
        client = self._guard.client_of(peer, self.headers)
        if self._address is None or client == self._address:
            return True
        self._guard.release(self._address)
        self._address = client
        return self._guard.admit(client)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body; enough of it starts the time anew."""
        if self._refused:
            return
        super().on_body(body)
        self._body_bytes += len(body)
        self._allowance += _CHUNK_BYTES * len(body)
        if self._body_bytes >= self._limits.body_progress:
            self._body_bytes = 0
            self._set_deadline(self._limits.body_timeout, self._body_late)

    def on_message_complete(self) -> None:
        """End the time for the body."""
        self._in_body = False
        self._clear_deadline()
        if not self._refused:
            super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket protocol."""
        if not self._refused:
            self._release()
            super().handle_websocket_upgrade()

    def pause_writing(self) -> None:
        """Start the time for a client that does not read its response."""
        super().pause_writing()
        self._send_deadline = self.loop.call_later(self._limits.send_timeout, self._response_late)

    def resume_writing(self) -> None:
        """End that time: the client has read something."""
        super().resume_writing()
        if self._send_deadline is not None:
            self._send_deadline.cancel()
            self._send_deadline = None

    # ---------------------------------------------------------------- deadlines

    def _set_deadline(self, seconds: float, late: Callable[[], None]) -> None:
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, late)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _headers_late(self) -> None:
        if self.flow.read_paused:  # the server itself does not read now
            self._set_deadline(self._limits.header_timeout, self._headers_late)
        else:
            self._refuse(408, f"no complete headers within {self._limits.header_timeout:g} s")

    def _body_late(self) -> None:
        cycle: Any = self.cycle  # None before the first request
        if self.flow.read_paused:
            self._set_deadline(self._limits.body_timeout, self._body_late)
        elif cycle is not None and cycle.response_complete:  # it was answered before its body ended
            self.transport.abort()
        else:
            self._refuse(408, f"too little of the body within {self._limits.body_timeout:g} s")

    def _response_late(self) -> None:
        self._guard.log(str(self._address), f"it read nothing of a response for {self._limits.send_timeout:g} s")
        self.transport.abort()

    def _refuse(self, status: int, reason: str) -> None:
        """Answer with an error, discard further input, and close."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        self._clear_deadline()
        self._unset_keepalive_if_required()
        self._guard.log(str(self._address), reason)
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started:
                self.transport.abort()
                return
            cycle.disconnected = True  # whatever the application answers comes too late
            cycle.message_event.set()
        response = error_response(ApiError(status, reason), secrets.token_hex(8))
        lines = [STATUS_LINE[status], b"connection: close\r\n"]
        lines += [b"%b: %b\r\n" % header for header in response.raw_headers]
        self.flow.resume_reading()
        self.transport.write(b"".join([*lines, b"\r\n", bytes(response.body)]))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._abort_timer = self.loop.call_later(_DISCARD_S, self.transport.abort)

    def _release(self) -> None:
        self._clear_deadline()
        if self._address is not None:
            self._guard.release(self._address)
            self._address = None


# ------------------------------------------------------------------------------------------ WebSocket


class _TooManyFrames(Exception):
    """A client sent more frames within a second than it may."""


class _CountedFrames(ServerProtocol):
    """Parser of frames that ends the connection when a client sends too many within a second."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._second = 0.0
        self._received: Counter[str] = Counter()

    def recv_frame(self, frame: Frame) -> None:
        """Count a frame, then handle it; the rest of the input is discarded after one too many."""
        now = time.monotonic()
        if now - self._second >= 1.0:
            self._second = now
            self._received.clear()
        if frame.opcode is Opcode.PING:
            kind = "pings"
        elif frame.opcode is Opcode.CONT or (not frame.fin and frame.opcode in (Opcode.TEXT, Opcode.BINARY)):
            kind = "fragments"
        else:
            kind = "frames"
        self._received[kind] += 1
        if self._received[kind] > _FRAMES_PER_S[kind] and frame.opcode is not Opcode.CLOSE:
            reason = f"more than {_FRAMES_PER_S[kind]} {kind} a second"
            self.fail(_POLICY_VIOLATION, reason)
            self.parser_exc = _TooManyFrames(reason)
            return
        super().recv_frame(frame)


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
    _refused = False
    #: Answer to the newest ping that came while the transport accepted no data.
    _pong: bytes = b""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        plain = self.conn
        self.conn = _CountedFrames(
            extensions=plain.available_extensions, max_size=self.config.ws_max_size, logger=plain.logger
        )

    def data_received(self, data: bytes) -> None:
        """Handle frames, unless the client sent too many; then its input is discarded."""
        if not self._refused:
            super().data_received(data)

    def handle_ping(self) -> None:
        """Answer a ping. A client that does not read gets one answer, to its newest ping (RFC 6455, 5.5.3)."""
        output = self.conn.data_to_send()
        if self.writable.is_set():
            self.transport.write(b"".join(output))
        elif output:
            self._pong = output[-1]

    def keepalive_timeout(self) -> None:
        """Drop a client that answered no ping: it reads nothing, so the close frame may never arrive."""
        self.pong_timer = None
        self.pending_ping_payload = None
        self.close_within(_DISCARD_S, _TRY_AGAIN_LATER, "too slow")

    def handle_parser_exception(self) -> None:
        """Close the connection after invalid input; further input is discarded for a moment."""
        if not isinstance(self.conn.parser_exc, _TooManyFrames) or self.conn.close_sent is None:
            if self.conn.close_sent is None:  # still in the handshake
                self.transport.close()
                return
            super().handle_parser_exception()
            return
        self._refused = True
        self.stop_keepalive()
        code = self.conn.close_sent.code
        reason = self.conn.close_sent.reason
        logger.warning(f"WebSocket of {self.client[0] if self.client else 'a local socket'} closed: {reason}")
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        output = self.conn.data_to_send()
        self.close_sent = True
        # Answers to pings of a client that reads nothing are left out: the last frame is the close frame.
        self.transport.write(output[-1] or output[-2])
        if self.transport.can_write_eof():
            self.transport.write_eof()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self._abort_timer = self.close_timer = self.loop.call_later(_DISCARD_S, self.transport.abort)

    def handle_connect(self, event: Any) -> None:
        """Accept the connection and add this protocol to the scope's extensions."""
        super().handle_connect(event)
        # The application's task exists but has not run yet. A bad handshake has no scope.
        scope: Any = getattr(self, "scope", None)
        if scope is not None:
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
        if self._pong and self.is_open:
            self.transport.write(self._pong)
            self._pong = b""
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
