"""Redraw docs/images from real runs: run it with the Python of .venv after anything they show has changed."""

import os
import re
import subprocess
import sys

from rich.console import Console
from rich.text import Text

from bootstrap import ROOT, print_help_if_asked

WIDTH = 92
#: image -> arguments of hybrid-scheduler
IMAGES = {
    "simulate.svg": ["simulate", "--scenario", "mixed", "--utilisation", "0.7", "--tasks", "20000"],
}


def draw(name: str, arguments: list[str]) -> None:
    # A terminal for the program: colours and a width, but no config.yaml and no variables of the user.
    terminal = {"PATH": os.environ["PATH"], "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "hybrid_scheduler", *arguments, "--quiet"],
        stdout=subprocess.PIPE, check=True, text=True, env=terminal, cwd=ROOT,
    )  # fmt: skip
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    console.print(Text.from_ansi("$ hybrid-scheduler " + " ".join(arguments) + "\n\n" + done.stdout.rstrip()))
    picture = console.export_svg(title="hybrid-scheduler simulate", unique_id="terminal")
    # The picture loads nothing from elsewhere: a monospaced font of the reader's own does.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL).replace("Fira Code", "ui-monospace")
    picture = re.sub(r"[ \t]+$", "", picture, flags=re.MULTILINE)
    (ROOT / "docs" / "images" / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    for name, arguments in IMAGES.items():
        draw(name, arguments)
