"""Chromium on this machine, for printing the guide, taking pictures and testing the dashboard.

python scripts/find_browser.py    prints the program
"""

from __future__ import annotations

import os
import shutil

from bootstrap import print_help_if_asked

#: The headless shell first: the same engine without windows, where pages take half of the processor time.
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")


def find_browser() -> str | None:
    """Return the program that CHROMIUM names, or else the first that is installed; None if there is none."""
    named = os.environ.get("CHROMIUM")
    return next(filter(None, map(shutil.which, [named] if named else PROGRAMS)), None)


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    print(find_browser() or "none")
