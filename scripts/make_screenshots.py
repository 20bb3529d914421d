"""Take the pictures of the dashboard in docs/images/dashboard: every view, both themes, three widths.

    .venv/bin/python scripts/make_screenshots.py                       starts a server of its own for a minute
    .venv/bin/python scripts/make_screenshots.py --url http://127.0.0.1:8000

Needs chromium (Debian's package, or CHROMIUM names one) and the built dashboard.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from urllib.request import urlopen

from bootstrap import ROOT
from build_dashboard import ensure_dashboard

TARGET = ROOT / "docs" / "images" / "dashboard"
VIEWS = {"compare": "/compare", "scheduler": "/scheduler/hybrid_ml", "history": "/history"}
WIDTHS = (360, 768, 1440)
THEMES = ("dark", "light")
#: Enough tasks for intervals and a picture of the queues.
_TASKS = 1200
_COLOURS = 256


@contextmanager
def server() -> Iterator[str]:
    """A live run with something to see: mixed tasks at a load that round robin barely survives."""
    command = [sys.executable, "-m", "hybrid_scheduler", "serve", "--port", "0", "--scenario", "mixed"]
    command += ["--utilisation", "0.12", "--speed", "15"]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            found = re.search(r"http://localhost:(\d+)", process.stdout.readline())
            if found is None:
                raise RuntimeError("the server did not start")
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            process.terminate()
            process.wait(30)


def wait_for_tasks(url: str) -> None:
    while True:
        with urlopen(f"{url}/api/status") as answer:
            if int(re.findall(rb'"tasks_processed":(\d+)', answer.read())[0]) >= _TASKS:
                return
        time.sleep(1)


def shoot(url: str) -> None:
    from PIL import Image
    from playwright.sync_api import sync_playwright

    TARGET.mkdir(parents=True, exist_ok=True)
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for view, path in VIEWS.items():
            for theme in THEMES:
                for width in WIDTHS:
                    page = browser.new_page(viewport={"width": width, "height": 1000}, reduced_motion="reduce")
                    page.add_init_script("localStorage.setItem('hs.tour', 'done')")
                    page.goto(f"{url}{path}?theme={theme}")
                    page.wait_for_function(
                        "() => document.querySelector('[data-testid=connection]')?.innerText.includes('Live')"
                    )
                    page.wait_for_timeout(3000)
                    # The slowest widgets ask the database, or have something simulated.
                    page.wait_for_function("() => !document.querySelector('.skeleton')", timeout=90_000)
                    picture = Image.open(BytesIO(page.screenshot(full_page=True)))
                    target = TARGET / f"{view}-{theme}-{width}.png"
                    picture.convert("RGB").quantize(_COLOURS).save(target, optimize=True)
                    print(target.relative_to(ROOT), f"{target.stat().st_size / 1000:.0f} kB")
                    page.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="a server that runs already")
    url = parser.parse_args().url
    ensure_dashboard()
    if url:
        shoot(url)
        return
    with server() as own:
        wait_for_tasks(own)
        shoot(own)


if __name__ == "__main__":
    main()
