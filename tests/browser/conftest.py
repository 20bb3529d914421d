"""Fixtures with Debian's chromium and a real server. A missing browser fails in CI and skips elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, sync_playwright

sys.path[:0] = [str(Path(__file__).parents[1] / "faults"), str(Path(__file__).parent)]  # process, page_checks

from page_checks import ROOT, SCHEDULERS, make_two_runs  # noqa: E402
from process import Served, served  # noqa: E402

from build_dashboard import NoDashboardError, ensure_dashboard  # noqa: E402

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


_LOUD = ("error", "warning")


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
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        _missing("no chromium on this machine (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def server(dashboard: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All six schedulers at twenty times the speed, so that there is something to see.

    One server for all files: a test that pauses the run resumes it, and one that stores a run deletes it.
    """
    settings = {"HYBRID_SIMULATION__SCHEDULERS": SCHEDULERS}
    with served(tmp_path_factory.mktemp("live"), "--speed", "20", environment=settings) as process:
        yield process


@pytest.fixture(scope="module")
def two_runs(server: Served) -> tuple[str, str]:
    """New runs for each module, so that they are short."""
    return make_two_runs(server)


@pytest.fixture(scope="package")
def empty_server(dashboard: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without a run and without results."""
    with served(tmp_path_factory.mktemp("empty"), "--no-start") as process:
        yield process


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
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
        page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
        page.set_default_timeout(30_000)
        said: list[str] = []
        page.on("console", lambda line: said.append(_with_address(line)) if line.type in _LOUD else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.add_init_script("localStorage.setItem('hs.tour', 'done')")
        pages.append((page, said, (*allowed, *(_OUTAGE if outage else ()))))
        if before is not None:
            page.route(*before)
        page.goto(f"{url}{path}{'&' if '?' in path else '?'}theme={theme}")
        return page

    yield open_page
    for page, said, expected in pages:
        page.close()
        assert [text for text in said if not any(words in text for words in expected)] == []
