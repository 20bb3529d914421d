"""Built dashboard: its page for every view, its assets, and the root address.

Files are listed once, when the server starts, and each gets its own route. No path from a client is ever opened.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import FileResponse, HTMLResponse, Response

from .app_context import AppContext, RequestContext, context_of
from .json_response import StrictJSONResponse
from .schemas.base_models import TEXT, described
from .schemas.catalogue import OnlineResponse

#: Views that the dashboard's page renders itself.
_VIEWS = ("compare", "scheduler", "history", "diff", "runtime", "workspace", "cluster")
_VIEWS_WITH_PATH = ("scheduler", "run")
_CACHE_FOREVER = "public, max-age=31536000, immutable"
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Hybrid ML Scheduler</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>The server runs; the dashboard is not built</h1>
<p>Build it once, with Node 20.19 or newer installed:</p>
<pre>python3 scripts/build_dashboard.py</pre>
<p>Then start the server again. The API works without it: see <a href="/api/status">/api/status</a>
and <a href="/api/openapi.json">/api/openapi.json</a>.</p></main></body></html>
"""


router = APIRouter(tags=["root"])


@dataclass(frozen=True)
class _Asset:
    path: Path
    media_type: str
    #: Vite puts a hash of the content into the names below assets/.
    hashed: bool


_PAGE = {200: {"content": {"text/html": {"schema": TEXT}}}}


@router.get("/", **described("Dashboard, or a status line for programs", OnlineResponse, responses=_PAGE))
async def get_root(request: Request, context: RequestContext) -> Response:
    """Return the dashboard to browsers and one line of JSON to programs."""
    if prefers_html(request.headers.get("accept", "")):
        return _page(context)
    return StrictJSONResponse({"status": "online", "message": "Hybrid ML Scheduler Dashboard API is running"})


def find_dashboard(root: Path | None = None) -> Path | None:
    """Return the folder of the built dashboard.

    Parameters
    ----------
    root
        Root of the repository, for a dashboard that was built there.

    Returns
    -------
    Path or None
        The folder inside the package or in the repository; None if there is neither.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "dashboard_dist", (root or package.parent.parent) / "dashboard" / "dist"):
        if (folder / "index.html").is_file():
            return folder
    return None


def prefers_html(accept: str) -> bool:
    """Return True if an Accept header names HTML; programs ask for JSON or for anything."""
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


def _page(context: AppContext, status: int = 200) -> Response:
    """Return the one page that renders every view; with status 404 it renders "not found"."""
    headers = {"Cache-Control": "no-cache"}
    if context.static is None:
        return HTMLResponse(_NOT_BUILT, status, headers)
    context.whatif_worker.warm_up()  # an open dashboard may soon send a what-if request
    return FileResponse(context.static / "index.html", status, headers, media_type="text/html")


def not_found_page(request: Request) -> Response | None:
    """Return the dashboard's 404 page for a browser; None for programs and for addresses of the API."""
    path = request.url.path
    is_browser = request.method == "GET" and prefers_html(request.headers.get("accept", ""))
    if not is_browser or path == "/api" or path.startswith("/api/"):
        return None
    return _page(context_of(request), 404)


def _assets(static: Path) -> Mapping[str, _Asset]:
    found: dict[str, _Asset] = {}
    for path in sorted(static.rglob("*")):
        if path.is_file() and not path.is_symlink():
            name = path.relative_to(static).as_posix()
            media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
            found[name] = _Asset(path, media_type, name.startswith("assets/"))
    return found


def install(app: FastAPI, static: Path | None) -> None:
    """Add routes for views and assets. They are not part of the API, so OpenAPI leaves them out."""

    async def view(request: Request) -> Response:
        return _page(context_of(request))

    for name in _VIEWS:
        app.add_route(f"/{name}", view, ["GET"], include_in_schema=False)
    for name in _VIEWS_WITH_PATH:
        app.add_route(f"/{name}/{{rest:path}}", view, ["GET"], include_in_schema=False)
    # One route per file and no catch-all route: other addresses keep the API's 404 or 405.
    for name, asset in _assets(static).items() if static is not None else ():
        app.add_route(f"/{name}", _file_handler(asset), ["GET"], include_in_schema=False)


def _file_handler(asset: _Asset) -> Callable[[Request], Awaitable[Response]]:
    headers = {"Cache-Control": _CACHE_FOREVER if asset.hashed else "no-cache"}

    async def send(request: Request) -> Response:
        return FileResponse(asset.path, media_type=asset.media_type, headers=headers)

    return send
