"""Fixtures with Debian's chromium and a real server. A missing browser fails in CI and skips elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route, expect, sync_playwright

sys.path[:0] = [str(Path(__file__).parents[1] / "faults"), str(Path(__file__).parent)]  # process, page_checks

from page_checks import ROOT, SCHEDULERS, SPEED, make_two_runs, write_sweep  # noqa: E402
from process import Served, served  # noqa: E402

from build_dashboard import NoDashboardError, ensure_dashboard  # noqa: E402
from find_browser import find_browser  # noqa: E402

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--js-flags=--expose-gc",
)
#: What the browser itself says when a server that was there is gone.
_OUTAGE = (
    "ERR_CONNECTION_REFUSED",
    "WebSocket connection to",
    "ERR_EMPTY_RESPONSE",
    "ERR_CONNECTION_RESET",
    "ERR_SOCKET_NOT_CONNECTED",
    "ERR_CONTENT_LENGTH_MISMATCH",  # it went in the middle of an answer
)


#: What it says while the server compiles its code, on a machine where no test did so before.
_COMPILING = ("503", "/api/whatif")
_LOUD = ("error", "warning")
#: Of whatever is awaited in a page, in milliseconds: enough for a busy machine with one core.
_TIMEOUT_MS = 30_000
expect.set_options(timeout=_TIMEOUT_MS)
#: A page begins without what pages before it stored, but with a finished tour; a reload keeps what it stored.
_NEW_VISITOR = """
if (!sessionStorage.getItem('known')) { localStorage.clear(); sessionStorage.setItem('known', 'yes'); }
localStorage.setItem('hs.tour', 'done');
"""


def _with_address(line: ConsoleMessage) -> str:
    """Return the message with the address that it is about."""
    return f"{line.text} {line.location.get('url', '')}"


def _missing(what: str) -> None:
    if os.environ.get("CI") or os.environ.get("HYBRID_REQUIRE_SERVICES"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def dashboard() -> Path:
    """The production build, made now if the sources changed."""
    try:
        return ensure_dashboard(ROOT)
    except NoDashboardError as error:
        _missing(f"{error}: {error.hint}")
        raise


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not for the session: Playwright keeps an event loop running, and other folders need to run theirs."""
    program = find_browser()
    if program is None:
        _missing("no chromium on this machine (Debian: apt-get install chromium-headless-shell)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def shared_context(browser: Browser) -> Iterator[BrowserContext]:
    """One profile for all pages, so that the scripts of the dashboard are loaded and compiled once."""
    context = browser.new_context(reduced_motion="reduce")
    context.add_init_script(_NEW_VISITOR)
    yield context
    context.close()


@pytest.fixture(scope="package")
def shared_server(dashboard: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All six schedulers, one server for all files: a test that stores a run deletes it."""
    settings = {
        "HYBRID_SIMULATION__SCHEDULERS": SCHEDULERS,
        "HYBRID_LIVE__UPDATE_INTERVAL": "1",
        # Quick tests of one file read and write more than a person does.
        "HYBRID_SERVER__RATE_LIMIT": "6000/minute",
        "HYBRID_SERVER__WRITE_RATE_LIMIT": "6000/minute",
    }
    folder = tmp_path_factory.mktemp("live")
    write_sweep(folder / "data" / "results" / "demo")
    with served(folder, "--speed", str(SPEED), environment=settings) as process:
        yield process


@pytest.fixture
def server(shared_server: Served) -> Iterator[Served]:
    """The shared server, whose run goes on while a test uses it and rests between them."""
    with shared_server.client() as api:
        api.post("/api/resume").raise_for_status()
        yield shared_server
        api.post("/api/pause").raise_for_status()


@pytest.fixture(scope="module")
def two_runs(shared_server: Served) -> tuple[str, str]:
    """New runs for each module, so that they are short."""
    return make_two_runs(shared_server)


@pytest.fixture(scope="package")
def empty_server(dashboard: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without a run and without results."""
    with served(tmp_path_factory.mktemp("empty"), "--no-start") as process:
        yield process


@pytest.fixture
def open_page(shared_context: BrowserContext) -> Iterator[Callable[..., Page]]:
    """Open a page of the dashboard; at the end there must have been nothing else on the console than is allowed."""
    pages: list[tuple[Page, list[str], tuple[str, ...]]] = []

    def open_page(
        url: str,
        path: str = "/compare",
        *,
        width: int = 1440,
        theme: str = "dark",
        outage: bool = False,
        allowed: tuple[str, ...] = (),
        before: tuple[str, Callable[[Route], object]] | None = None,
    ) -> Page:
        page = shared_context.new_page()
        page.set_viewport_size({"width": width, "height": 900})
        page.set_default_timeout(_TIMEOUT_MS)
        said: list[str] = []
        page.on("console", lambda line: said.append(_with_address(line)) if line.type in _LOUD else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        pages.append((page, said, (*allowed, *(_OUTAGE if outage else ()))))
        if before is not None:
            page.route(*before)
        page.goto(f"{url}{path}{'&' if '?' in path else '?'}theme={theme}")
        return page

    yield open_page
    for page, said, expected in pages:
        page.close()
        unexpected = [text for text in said if not any(words in text for words in expected)]
        assert [text for text in unexpected if not all(words in text for words in _COMPILING)] == []
