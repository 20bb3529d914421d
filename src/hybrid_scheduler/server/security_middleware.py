"""Security checks in front of the application, as one ASGI middleware.

Checks run in order of cost, before the application sees the request: Host, Origin, token, rate, content type, size.
A WebSocket that fails a check gets an HTTP response instead of the upgrade. Rates are limited per client over a
moving window, counted in Redis or in this process. While Redis is unavailable the limits stay in force: the count
continues in this process.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import re
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from limits import RateLimitItem, parse
from limits.aio.storage import RedisStorage, Storage
from limits.aio.strategies import MovingWindowRateLimiter
from loguru import logger
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core import InvalidInputError
from ..storage.redis_cache import TIMEOUT_S, CircuitBreaker, close_quietly
from .access_control import Headers, client_address, counted_address, parse_networks
from .errors import ApiError, error_response, internal_error
from .trace_uploads import FORMATS

if TYPE_CHECKING:
    from .app_context import ServerOptions
    from .prometheus_metrics import Metrics


#: Clients whose requests are counted in this process.
_MAX_CLIENTS = 10_000


def parse_limit(field: str, text: str) -> RateLimitItem | None:
    """Return the limit that a text such as "240/minute" names; None for "" and "off".

    Raises
    ------
    InvalidInputError
        If the text names no limit.
    """
    if text.strip().lower() in ("", "off", "0"):
        return None
    try:
        return parse(text)
    except ValueError:
        raise InvalidInputError(field, 'a rate such as "240/minute", or "off"', text) from None


class _Windows:
    """Moving windows of requests, counted in this process.

    A request looks at its own client alone, however many others came. The client that was silent longest is
    forgotten first.
    """

    def __init__(self) -> None:
        self._times: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def hit(self, limit: RateLimitItem, name: str, client: str) -> bool:
        """Count a request; return False if the client has reached the limit."""
        now = time.monotonic()
        times = self._times.setdefault((name, client), deque())
        self._times.move_to_end((name, client))
        while times and times[0] <= now - limit.get_expiry():
            times.popleft()
        if len(times) >= limit.amount:
            return False
        times.append(now)
        if len(self._times) > _MAX_CLIENTS:
            self._times.popitem(last=False)
        return True

    def seconds_left(self, limit: RateLimitItem, name: str, client: str) -> float:
        """Return the seconds until the oldest counted request leaves the window."""
        times = self._times.get((name, client))
        return times[0] + limit.get_expiry() - time.monotonic() if times else 0.0


class RateLimiter:
    """Counts requests per client address; requests that change something have a second limit.

    Parameters
    ----------
    options
        Names the limits.
    redis_url
        Redis that several processes share; None to count in this process.
    clock
        Returns monotonic seconds.
    """

    def __init__(
        self, options: ServerOptions, *, redis_url: str | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._all = parse_limit("server.rate_limit", options.rate_limit)
        self._writes = parse_limit("server.write_rate_limit", options.write_rate_limit)
        self._memory = _Windows()
        self.redis = None if redis_url is None else MovingWindowRateLimiter(_redis_storage(redis_url))
        self._breaker = CircuitBreaker("rate limits", clock)

    async def check(self, client: str, *, writes: bool) -> None:
        """Count one request of a client.

        Raises
        ------
        ApiError
            With status 429 if the client has reached a limit.
        """
        client = counted_address(client)
        for name, limit in (("all", self._all), ("writes", self._writes if writes else None)):
            if limit is not None and not await self._hit(limit, name, client):
                seconds = math.ceil(self._memory.seconds_left(limit, name, client))
                raise ApiError(429, f"more than {limit}", retry_after=max(1, seconds))

    async def _hit(self, limit: RateLimitItem, name: str, client: str) -> bool:
        # The local count is always kept, so that it is complete when Redis fails. It also holds what came while
        # Redis was unavailable and does not know of.
        local = self._memory.hit(limit, name, client)
        redis = self.redis
        if redis is None:
            return local
        return await self._breaker.call(lambda: redis.hit(limit, name, client), local) and local

    async def close(self) -> None:
        """Close the connection to Redis."""
        storage = None if self.redis is None else self.redis.storage
        self.redis = None
        if isinstance(storage, RedisStorage):
            connection: Any = storage.bridge
            await close_quietly(connection.get_connection())


def _redis_storage(url: str) -> Storage:
    return RedisStorage(
        "async+" + url,
        implementation="redispy",
        key_prefix="hybrid-scheduler:limits",
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
    )


_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
#: Probes need no token and have no rate limit; their body is only "ok".
_PROBES = ("/api/health/live", "/api/health/ready")
_UNLIMITED = (*_PROBES, "/api/health", "/api/metrics")
_TRACES = "/api/traces"
_INSPECT = "/api/traces/inspect"
_JOBS = ("/api/jobs/simulate", "/api/jobs/forecast")
_RUNS = "/api/runs"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9\-]{8,64}")
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
#: A browser's WebSocket cannot set headers, so the token may come as a subprotocol with this prefix.
_TOKEN_PREFIX = "token."
SUBPROTOCOL = "hybrid-scheduler"
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
        b"connect-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'",
    ),
)


class CompressionMiddleware:
    """Compresses responses for clients that accept gzip: pages and JSON shrink to a fifth.

    Downloads keep their length, so that browsers show their progress, and parts of files their positions. Fonts are
    compressed already.

    Parameters
    ----------
    app
        The application behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressing = GZipMiddleware(app, minimum_size=1024, compresslevel=6)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        plain = (
            scope["type"] != "http"
            or scope["path"].startswith("/api/export/")
            or scope["path"].endswith((".woff2", ".png"))
            or any(name == b"range" for name, _ in scope["headers"])
        )
        await (self._app if plain else self._compressing)(scope, receive, send)


class SecurityMiddleware:
    """Outermost middleware: gives every request an id and every response its security headers.

    Parameters
    ----------
    app
        The application behind the checks.
    options
        Token, hosts, origins, proxies and size limits.
    limiter
        Counts requests per client.
    metrics
        Counts requests and their durations.
    """

    def __init__(self, app: ASGIApp, *, options: ServerOptions, limiter: RateLimiter, metrics: Metrics) -> None:
        self.app = app
        self.limiter = limiter
        self.metrics = metrics
        self.limits = dict.fromkeys((_TRACES, _INSPECT, *_JOBS), options.trace_limit) | {_RUNS: options.run_limit}
        self.body_limit = options.body_limit
        self.token = options.token.encode()
        own = options.host if ":" not in options.host else f"[{options.host.strip('[]')}]"
        self.hosts = {name.lower() for name in (*_LOCAL_HOSTS, own, *options.allowed_hosts)}
        self.origins = {origin.lower().rstrip("/") for origin in options.allowed_origins}
        self.proxies = parse_networks(options.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request and pass it on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers: Headers = {}
        for name, value in scope["headers"]:
            # Two Host or Origin headers are joined, so that they match nothing.
            headers[name] = headers[name] + b"," + value if name in headers else value
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope["request_id"] = request_id
        try:
            await self._check(scope, headers)
        except ApiError as error:
            await send_rejection(scope, receive, send, error_response(error, request_id))
            self.metrics.record_request(scope, error.status, 0.0)
            return
        if scope["type"] == "websocket":
            await self._serve_websocket(scope, receive, send)
        else:
            await self._serve(scope, headers, receive, send)

    # ---------------------------------------------------------------- checks

    async def _check(self, scope: Scope, headers: Headers) -> None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if _host_name(host) not in self.hosts:
            raise ApiError(403, "this Host is not allowed", hint="server.allowed_hosts lists those that are")
        is_websocket = scope["type"] == "websocket"
        writes = not is_websocket and scope["method"] not in _SAFE_METHODS
        if (is_websocket or writes) and not self._is_allowed_origin(headers.get(b"origin"), host):
            raise ApiError(403, "this Origin is not allowed", hint="server.allowed_origins lists those that are")
        path = scope["path"]
        guarded = is_websocket or path.startswith("/api")
        refused = bool(self.token) and guarded and path not in _PROBES and not self._has_token(scope, headers)
        if guarded and (refused or path not in _UNLIMITED):  # a wrong token counts like a change
            await self.limiter.check(client_address(dict(scope), headers, self.proxies), writes=writes or refused)
        if refused:
            raise ApiError(401, "a token is needed", headers={"WWW-Authenticate": "Bearer"})
        if guarded and writes:
            self._check_body(path, headers)

    def _is_allowed_origin(self, origin: bytes | None, host: str) -> bool:
        if origin is None:
            return True
        text = origin.decode("latin-1").lower()
        return text in (f"http://{host}", f"https://{host}") or text in self.origins

    def _has_token(self, scope: Scope, headers: Headers) -> bool:
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        candidates = [given.strip()] if kind.lower() == b"bearer" else []
        if scope["type"] == "websocket":
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=20)
            candidates += [value.encode("latin-1", "replace") for value in query.get("token", [])]
            candidates += [
                name.removeprefix(_TOKEN_PREFIX).encode("latin-1", "replace")
                for name in scope.get("subprotocols", [])
                if name.startswith(_TOKEN_PREFIX)
            ]
        # Every candidate is compared, so that the time does not reveal which one was close.
        return any([hmac.compare_digest(candidate, self.token) for candidate in candidates])  # noqa: C419

    def _check_body(self, path: str, headers: Headers) -> None:
        kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
        if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
            raise ApiError(415, "Content-Encoding: must be left out", hint="send the body as it is")
        uploads = path in (_TRACES, _INSPECT, *_JOBS)
        allowed = tuple(FORMATS) if uploads else ("application/json",)
        if kind not in allowed and (kind or has_body or uploads):
            raise ApiError(415, f"Content-Type: must be {' or '.join(allowed)}")
        length = headers.get(b"content-length", b"")
        if length.isdigit() and int(length[:20]) > self._limit(path):
            raise _too_large(self._limit(path))

    def _limit(self, path: str) -> int:
        return self.limits.get(path, self.body_limit)

    # ---------------------------------------------------------------- WebSocket and HTTP

    async def _serve_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self.app(scope, receive, send)
        except asyncio.CancelledError:
            logger.warning(f"WebSocket {scope['request_id']} was cut off: the server is stopping")

    async def _serve(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        status = 500
        started = False
        limit = self._limit(scope["path"])
        received = 0
        extra = [*_HEADERS, (b"x-request-id", scope["request_id"].encode())]

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413, _too_large(limit).args[0])
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status = message["status"]
                started = True
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        try:
            await self.app(scope, receive_limited, send_with_headers)
        except ClientDisconnect:
            logger.debug(f"request {scope['request_id']} ended early: the client left")
        except asyncio.CancelledError:
            # uvicorn cancels what is left when its time to stop is over, and would log each with a traceback.
            logger.warning(f"request {scope['request_id']} was cut off: the server is stopping")
            if not started:
                error = ApiError(503, "the server is stopping")
                await error_response(error, scope["request_id"])(scope, receive, send_with_headers)
        except Exception as error:
            response = internal_error(error, scope["request_id"])
            # After the status is sent, an incomplete response makes uvicorn close the connection.
            if not started:
                await response(scope, receive, send_with_headers)
        finally:
            self.metrics.record_request(scope, status, time.perf_counter() - began)


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"the body is larger than {limit} bytes")


def _host_name(host: str) -> str:
    """Return the name in a Host header without the port; "" if the header is malformed."""
    if host.startswith("["):
        name, bracket, rest = host.partition("]")
        return name + bracket if not rest or re.fullmatch(r":\d{1,5}", rest) else ""
    name, colon, port = host.partition(":")
    return name if not colon or re.fullmatch(r"\d{1,5}", port) else ""


async def send_rejection(scope: Scope, receive: Receive, send: Send, response: Response) -> None:
    """Send an HTTP response to a request or, instead of the upgrade, to a WebSocket."""
    extra = [*_HEADERS, (b"x-request-id", scope["request_id"].encode())]
    if scope["type"] == "http":
        response.raw_headers.extend(extra)
        await response(scope, receive, send)
        return
    await receive()  # websocket.connect
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    start = {"type": "websocket.http.response.start", "status": response.status_code}
    await send({**start, "headers": [*response.raw_headers, *extra]})
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
