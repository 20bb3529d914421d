"""An empty environment that need not download a gigabyte.

It borrows what the development environment has, except this project itself: every installed package appears in it
as a link, in a folder that a .pth file names. pip sees the links as installed packages. It therefore resolves our
dependencies for real, with no index at hand, fails where one is missing or too old, and installs our wheel alone.
"""

from __future__ import annotations

import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "hybrid_scheduler"
_OWN = "hybrid_scheduler"


def empty_environment(folder: Path) -> Path:
    """A new virtual environment without pip; returns its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    borrow_packages(folder)
    return folder / "bin" / "python"


def borrow_packages(environment: Path) -> None:
    shelf = environment / "borrowed"
    shelf.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if _OWN not in entry.name and entry.suffix != ".pth":
            (shelf / entry.name).symlink_to(entry)
    (site_packages(environment) / "borrowed.pth").write_text(f"{shelf}\n", encoding="utf-8")


def site_packages(environment: Path) -> Path:
    (found,) = (environment / "lib").glob("python*/site-packages")
    return found
