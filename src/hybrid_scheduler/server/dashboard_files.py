"""The built dashboard: its page for every view, and its assets by their hashed names.

Files are listed once, when the server starts, each with an address of its own: no path from a client is opened.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import FileResponse, HTMLResponse, Response

from .app_context import AppContext, context_of

#: Views that the page itself draws.
VIEWS = ("compare", "scheduler", "history", "diff")
_DEEP = ("scheduler", "run")
_FOREVER = "public, max-age=31536000, immutable"
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Hybrid ML Scheduler</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>The server runs; the dashboard is not built</h1>
<p>Build it once, with Node 20.19 or newer installed:</p>
<pre>python3 scripts/build_dashboard.py</pre>
<p>Then start the server again. The API works without it: see <a href="/api/status">/api/status</a>
and <a href="/api/openapi.json">/api/openapi.json</a>.</p></main></body></html>
"""


@dataclass(frozen=True)
class _Asset:
    path: Path
    kind: str
    #: Vite puts a hash of the content into the names below assets/.
    hashed: bool


def find_dashboard(root: Path | None = None) -> Path | None:
    """The dashboard inside the package, or as it was built in the repository."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "dashboard_dist", (root or package.parent.parent) / "dashboard" / "dist"):
        if (folder / "index.html").is_file():
            return folder
    return None


def prefers_html(accept: str) -> bool:
    """Browsers ask for HTML by name; programs ask for JSON or for anything."""
    weights = {"text/html": 0.0, "application/json": 0.0}
    for part in accept.lower().split(","):
        kind, _, parameters = part.strip().partition(";")
        if kind.strip() in weights:
            weights[kind.strip()] = _quality(parameters)
    return weights["text/html"] > 0 and weights["text/html"] >= weights["application/json"]


def _quality(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def front_page(parts: AppContext, status: int = 200) -> Response:
    """The page that draws every view, and says so itself where there is none at this address."""
    headers = {"Cache-Control": "no-cache"}
    if parts.static is None:
        return HTMLResponse(_NOT_BUILT, status, headers)
    parts.thinker.warm()  # somebody looks: a what-if question may come
    return FileResponse(parts.static / "index.html", status, headers, media_type="text/html")


def lost(request: Request) -> Response | None:
    """What a person gets who followed a wrong address; programs, and the API's own addresses, get JSON."""
    path = request.url.path
    person = request.method == "GET" and prefers_html(request.headers.get("accept", ""))
    if not person or path == "/api" or path.startswith("/api/"):
        return None
    return front_page(context_of(request), 404)


def _assets(static: Path) -> Mapping[str, _Asset]:
    found: dict[str, _Asset] = {}
    for path in sorted(static.rglob("*")):
        if path.is_file() and not path.is_symlink():
            name = path.relative_to(static).as_posix()
            kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
            found[name] = _Asset(path, kind, name.startswith("assets/"))
    return found


def install(app: FastAPI, static: Path | None) -> None:
    """Serve views and assets. They are not part of the API, so they are not in its description."""

    async def view(request: Request) -> Response:
        return front_page(context_of(request))

    for name in VIEWS:
        app.add_route(f"/{name}", view, ["GET"], include_in_schema=False)
    for name in _DEEP:
        app.add_route(f"/{name}/{{rest:path}}", view, ["GET"], include_in_schema=False)
    # One route per file and none that catches the rest: whatever is not a file stays a 404 or 405 of the API.
    for name, known in _assets(static).items() if static is not None else ():
        app.add_route(f"/{name}", _sender(known), ["GET"], include_in_schema=False)


def _sender(known: _Asset) -> Callable[[Request], Awaitable[Response]]:
    keep = _FOREVER if known.hashed else "no-cache"

    async def asset(request: Request) -> Response:
        return FileResponse(known.path, media_type=known.kind, headers={"Cache-Control": keep})

    return asset
