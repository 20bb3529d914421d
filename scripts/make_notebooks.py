"""Execute the notebooks in place and take their pictures: run it with the Python of .venv.

    python scripts/make_notebooks.py                     all of them
    python scripts/make_notebooks.py reading-a-gantt     some, by name

Each runs top to bottom in an empty folder, in a kernel of this very Python: no installed kernel is looked for. What
would differ from run to run for no reason (times, versions) is left out, so that a second run changes little. The
picture of a cell with the tag "thumbnail", which the guide shows, goes to docs/images/notebooks.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
PICTURES = ROOT / "docs" / "images" / "notebooks"
#: Bytes of one picture in a notebook.
MAX_PICTURE = 60_000
THUMBNAIL = "thumbnail"
_SECONDS_PER_CELL = 240
#: Socket files where the system has them: no other user can listen.
_TRANSPORT = "tcp" if os.name == "nt" else "ipc"
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class ThisPython(AsyncKernelManager):
    """A kernel of the interpreter that runs this program, whatever kernels are installed for the user."""

    @property
    def kernel_spec(self) -> KernelSpec:
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Python 3", language="python")


def names() -> list[str]:
    return sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def read(name: str) -> Any:
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def execute(notebook: Any, folder: Path) -> None:
    """Run every cell with `folder` as the current one; a cell that raises ends it with `CellExecutionError`."""
    # A folder of its own with a short name: sockets live there, and their paths must not be long.
    with tempfile.TemporaryDirectory() as connection:
        manager = ThisPython(connection_file=str(Path(connection) / "k.json"), transport=_TRANSPORT)
        client = NotebookClient(notebook, km=manager, timeout=_SECONDS_PER_CELL, record_timing=False)
        # Start-up files and settings of the user would change what a notebook does.
        client.execute(cwd=str(folder), env={**os.environ, "IPYTHONDIR": connection}, cleanup_kc=True)


def tidy(notebook: Any) -> None:
    """Leave out what says more about the machine than about the notebook."""
    notebook["metadata"] = _METADATA
    for cell in notebook.cells:
        tags = cell.metadata.get("tags")
        cell["metadata"] = {"tags": tags} if tags else {}
        for output in cell.get("outputs", []):
            if output.output_type in ("display_data", "execute_result"):
                output["metadata"] = {}
                if "image/png" in output.data:
                    picture = _smaller(base64.b64decode(output.data["image/png"]))
                    output.data["image/png"] = base64.b64encode(picture).decode()


def _smaller(picture: bytes) -> bytes:
    """With a palette: plots have few colours."""
    plain = Image.open(io.BytesIO(picture)).convert("RGB")
    file = io.BytesIO()
    plain.quantize(256, dither=Image.Dither.NONE).save(file, "png", optimize=True)
    return file.getvalue()


def pictures(notebook: Any, tag: str | None = None) -> list[bytes]:
    """The PNG files of the outputs, in order: of all cells, or of those with a tag."""
    return [
        base64.b64decode(output.data["image/png"])
        for cell in notebook.cells
        if tag is None or tag in cell.metadata.get("tags", [])
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]


def make(name: str) -> None:
    notebook = read(name)
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, Path(folder))
    tidy(notebook)
    nbformat.validate(notebook)
    for number, picture in enumerate(pictures(notebook), 1):
        if len(picture) > MAX_PICTURE:
            sys.exit(f"error: picture {number} of {name} has {len(picture):,} bytes, {MAX_PICTURE:,} are allowed")
    nbformat.write(notebook, NOTEBOOKS / f"{name}.ipynb")
    PICTURES.mkdir(parents=True, exist_ok=True)
    for picture in pictures(notebook, THUMBNAIL):
        (PICTURES / f"{name}.png").write_bytes(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="notebooks to run; all of them if left out")
    wanted = parser.parse_args().names or names()
    for name in wanted:
        if name not in names():
            parser.error(f"no notebook {name!r}; there are: {', '.join(names())}")
    for name in wanted:
        print(name, flush=True)
        make(name)


if __name__ == "__main__":
    main()
