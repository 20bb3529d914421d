"""Take the pictures of the dashboard in docs/images/dashboard that the guide shows: views, widgets and a film.

    python scripts/make_screenshots.py                       starts a server of its own for some minutes
    python scripts/make_screenshots.py --url http://127.0.0.1:8000    one that has two runs or more
    python scripts/make_screenshots.py --only compare film

Needs chromium (Debian's package, or CHROMIUM names one) and the built dashboard.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from bootstrap import ROOT
from build_dashboard import ensure_dashboard
from find_browser import find_browser

if TYPE_CHECKING:
    from PIL.Image import Image
    from playwright.sync_api import Browser, Locator, Page

TARGET = ROOT / "docs" / "images" / "dashboard"
VIEWS = ("compare", "studio", "scheduler", "history", "diff", "learning", "workspace")
#: Widgets that the guide shows on their own, and where they are.
WIDGETS = {"gantt": "/compare", "what-if": "/compare", "decision": "/compare"}
CLOSE, FILM = "widgets", "film"
ALL = (*VIEWS, CLOSE, FILM)
WIDTH, THEME = 1440, "dark"
#: Enough tasks for intervals and a picture of the queues.
_TASKS = 1200
_COLOURS = 256
#: The film: so many pictures, so far apart, of the top of the first view.
_FRAMES, _EVERY_MS, _FILM_SIZE = 12, 500, (960, 620)


def call(url: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """GET, or POST where there is a body."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url + path, data, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


@contextmanager
def server() -> Iterator[str]:
    """The default run with two seeds, and a small sweep."""
    program = [sys.executable, "-m", "hybrid_scheduler"]
    command = [*program, "serve", "--port", "0", "--speed", "8"]
    sweep = ["sweep", "--schedulers", "greedy,earliest_finish,price_index", "--scenarios", "mixed", "--seeds", "3"]
    sweep += ["--loads", "0.1,0.3,0.5,0.7", "--tasks", "300", "--out", "data/results/loads"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*program, *sweep], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"http://localhost:(\d+)", process.stdout.readline())
            if found is None:
                raise RuntimeError("the server did not start")
            url = f"http://127.0.0.1:{found[1]}"
            wait_for_tasks(url)
            call(url, "/api/simulation/stop", {})
            call(url, "/api/simulation/start", {"seed": 7, "speed": 8})
            wait_for_tasks(url)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def wait_for_tasks(url: str) -> None:
    while call(url, "/api/status")["tasks_processed"] < _TASKS:
        time.sleep(1)


def paths(url: str) -> dict[str, str]:
    """Where each view is; the runs are the two newest."""
    newest, before = (run["run_id"] for run in call(url, "/api/runs?limit=2")["runs"])
    return {
        "compare": "/compare",
        "studio": "/compare",
        "scheduler": "/scheduler/hybrid_ml",
        "history": "/history",
        "diff": f"/diff?a={before}&b={newest}",
        "learning": f"/run/{newest}/learning/hybrid_ml",
        "workspace": f"/workspace?runs={newest},{before}&sweeps=loads&keep=load:0.1~0.5",
    }


def looks_of(url: str) -> bytes:
    """The colours of the schedulers that take part."""
    running = call(url, "/api/status")["schedulers"]
    looks = [one["look"] for one in call(url, "/api/schedulers") if one["name"] in running]
    return b"".join(bytes.fromhex(look[THEME][1:]) for look in looks)


def open_page(browser: "Browser", address: str, height: int = 1000) -> "Page":
    """A page on which nothing is being loaded any more."""
    page = browser.new_page(viewport={"width": WIDTH, "height": height}, reduced_motion="reduce")
    page.set_default_timeout(90_000)
    page.add_init_script("localStorage.setItem('hs.tour', 'done')")
    page.goto(f"{address}{'&' if '?' in address else '?'}theme={THEME}")
    page.wait_for_function("() => document.querySelector('[data-testid=connection]')?.innerText.includes('Live')")
    page.wait_for_timeout(3000)
    # The slowest widgets ask the database, or have something simulated.
    page.wait_for_function("() => !document.querySelector('.skeleton')")
    return page


def prepare(page: "Page", view: str) -> None:
    """Where a widget waits for a person, be that person."""
    if view == "compare":
        slider = page.locator("#what-if").get_by_label("GPU count")
        slider.focus()
        with page.expect_response("**/api/whatif"):
            page.keyboard.press("Home")  # one GPU
        page.locator("#what-if [aria-busy=false]").wait_for()
        slider.blur()
    if view == "studio":
        page.get_by_role("button", name="New run").click()
        page.get_by_role("radio", name="bursty").check()
        page.get_by_text("of capacity saturates").wait_for()
        page.wait_for_function("() => !document.querySelector('dialog .skeleton')")
    if view == "history":
        for box in page.locator("#runs").get_by_role("checkbox").all()[:2]:
            box.check()
        page.locator("#diff table").wait_for()


def picture_of(what: "Page | Locator") -> "Image":
    from PIL import Image

    return Image.open(BytesIO(what.screenshot())).convert("RGB")


def save(picture: "Image", name: str, looks: bytes) -> None:
    """In few colours. Those of the schedulers are always among them: a star's yellow stays yellow, however rare."""
    from PIL import Image

    common = picture.quantize(_COLOURS - len(looks) // 3).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette(bytes(common) + looks)
    target = TARGET / f"{name}.png"
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(target, optimize=True)
    print(target.relative_to(ROOT), f"{target.stat().st_size / 1000:.0f} kB", flush=True)


def shoot(browser: "Browser", url: str, view: str) -> None:
    page = open_page(browser, url + paths(url)[view])
    prepare(page, view)
    # A window as tall as the page, and not a full-page picture: that one lays the page out anew.
    # A dialog is as tall as its window.
    height = 1000 if view == "studio" else page.evaluate("document.body.scrollHeight")
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.wait_for_timeout(1000)
    save(picture_of(page), f"{view}-{THEME}-{WIDTH}", looks_of(url))
    page.close()


def shoot_widgets(browser: "Browser", url: str) -> None:
    for name, path in WIDGETS.items():
        page = open_page(browser, url + path)
        prepare(page, path.strip("/"))
        if name == "decision":
            page.locator("#ledger tbody tr").filter(has_text="Hybrid ML").first.click()
            widget = page.get_by_role("dialog")
            widget.get_by_role("table").first.wait_for()
        else:
            widget = page.locator(f"#{name}")
        save(picture_of(widget), f"widget-{name}", looks_of(url))
        page.close()


def film(browser: "Browser", url: str) -> None:
    """Some seconds of the first view, half size: small enough for a README."""
    from PIL import Image

    page = open_page(browser, f"{url}/compare", 930)
    frames = []
    for _ in range(_FRAMES):
        frames.append(picture_of(page).resize(_FILM_SIZE, Image.Resampling.LANCZOS))
        page.wait_for_timeout(_EVERY_MS)
    page.close()
    target = TARGET / "live.webp"
    rest = frames[1:]
    frames[0].save(target, save_all=True, append_images=rest, duration=_EVERY_MS, loop=0, quality=80, method=6)
    print(target.relative_to(ROOT), f"{target.stat().st_size / 1000:.0f} kB", flush=True)


def take(url: str, wanted: list[str]) -> None:
    from playwright.sync_api import sync_playwright

    TARGET.mkdir(parents=True, exist_ok=True)
    program = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for what in wanted:
            if what == FILM:
                film(browser, url)
            elif what == CLOSE:
                shoot_widgets(browser, url)
            else:
                shoot(browser, url, what)
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument("--only", nargs="+", choices=ALL, default=ALL, help="not all of them")
    asked = parser.parse_args()
    ensure_dashboard()
    if asked.url:
        take(asked.url, asked.only)
        return
    with server() as own:
        take(own, asked.only)


if __name__ == "__main__":
    main()
