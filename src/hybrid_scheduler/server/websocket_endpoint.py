"""WebSocket endpoint `/ws`, as a middleware in front of the router."""

from __future__ import annotations

from loguru import logger

from .app_context import AppContext
from .errors import ApiError, error_response
from .json_response import dumps
from .security_middleware import SUBPROTOCOL, Application, Receive, Scope, Send, send_rejection
from .stream_hub import create_client

_PATH = "/ws"


class WebSocketEndpoint:
    """Serves WebSockets and passes other requests to the application."""

    def __init__(self, app: Application, *, context: AppContext) -> None:
        self.app, self.context = app, context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket, or pass the request on."""
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        error = None
        if scope["path"] != _PATH:
            error = ApiError(404, "there is nothing at this address")
        elif self.context.hub.is_full:
            error = ApiError(503, "too many clients, or the server is stopping", retry_after=5)
        if error is not None:
            response = error_response(error, scope.get("request_id", "-"))
            await send_rejection(scope, receive, send, response)
            return
        await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self.context.hub
        client = create_client(hub, scope, send)
        # The client joins before the hello is made. Events published meanwhile are queued, so that none is missing.
        async with hub.join(client):
            seq = hub.last_seq
            await receive()  # websocket.connect
            chosen = SUBPROTOCOL if SUBPROTOCOL in scope.get("subprotocols", ()) else None
            await send({"type": "websocket.accept", "subprotocol": chosen})
            client.send_hello(await self._hello(seq))
            while (await receive())["type"] != "websocket.disconnect":
                pass  # messages from clients are ignored

    async def _hello(self, seq: int) -> bytes:
        try:
            status = await self.context.control.status()
        except Exception as error:
            logger.warning(f"hello without a status: {type(error).__name__}")
            status = None
        return dumps(
            {
                "type": "hello",
                "seq": seq,
                "run_id": status["run_id"] if status else None,
                "server_version": self.context.options.version,
                "status": status,
            }
        )
