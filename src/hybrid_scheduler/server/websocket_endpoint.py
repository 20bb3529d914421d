"""The one WebSocket, `/ws`. It never enters the router, which has nothing to offer it."""

from __future__ import annotations

from loguru import logger

from .app_context import AppContext
from .errors import Refused, refusal
from .json_response import dumps
from .security_middleware import SUBPROTOCOL, Application, Receive, Scope, Send, refuse
from .stream_hub import client_for

PATH = "/ws"


class WebSocketEndpoint:
    """Takes WebSockets, and hands everything else on."""

    def __init__(self, app: Application, *, parts: AppContext) -> None:
        self.app, self.parts = app, parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        problem = None
        if scope["path"] != PATH:
            problem = Refused(404, "there is nothing at this address")
        elif self.parts.hub.is_full:
            problem = Refused(503, "too many clients, or the server is stopping", retry_after=5)
        if problem is not None:
            await refuse(scope, receive, send, refusal(problem, scope.get("request_id", "-")))
            return
        await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        hub = self.parts.hub
        client = client_for(hub, scope, send)
        # Joined before the hello is made: what is published meanwhile waits its turn, so that no number is missing.
        async with hub.join(client):
            seq = hub.last_seq
            await receive()  # websocket.connect
            chosen = SUBPROTOCOL if SUBPROTOCOL in scope.get("subprotocols", ()) else None
            await send({"type": "websocket.accept", "subprotocol": chosen})
            client.greet(await self._hello(seq))
            while (await receive())["type"] != "websocket.disconnect":
                pass  # clients have nothing to say here

    async def _hello(self, seq: int) -> bytes:
        try:
            status = await self.parts.control.status()
        except Exception as error:
            logger.warning(f"hello without a status: {type(error).__name__}")
            status = None
        return dumps(
            {
                "type": "hello",
                "seq": seq,
                "run_id": status["run_id"] if status else None,
                "server_version": self.parts.options.version,
                "status": status,
            }
        )
