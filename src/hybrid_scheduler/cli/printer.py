"""The one printer: stdout carries the result, stderr the talk."""

from __future__ import annotations

import io
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..core.canonical_json import pretty_json
from .table import Column, table

#: A bar that comes and goes within a blink only flickers.
_PATIENCE = 0.5


class Printer:
    """Writes to whatever stdout and stderr are when it is made."""

    def __init__(self, *, quiet: bool = False) -> None:
        for stream in (sys.stdout, sys.stderr):
            # A glyph that the terminal's encoding lacks becomes "?" instead of an exception.
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")
        self.quiet = quiet
        self._out = Console(file=sys.stdout, highlight=False)
        self._err = Console(file=sys.stderr, highlight=False)

    # ---------------------------------------------------------------- results

    def document(self, content: Any) -> None:
        """One strict JSON document, in one write."""
        self._out.file.write(pretty_json(content))
        self._out.file.flush()

    def text(self, text: str | Text = "") -> None:
        """A line of the result; on a terminal it is folded between words."""
        if self.width and text:
            self._out.print(Padding(Text.assemble(text), (0, 1), expand=False))
        else:
            self._out.print(text, soft_wrap=True)

    def facts(self, facts: Sequence[str]) -> None:
        """Short facts in a row; where they do not fit, the line breaks between two of them."""
        row = ""
        for fact in facts:
            longer = f"{row} · {fact}" if row else fact
            if row and self.width and cell_len(longer) > self.width - 2:
                self.text(row)
                longer = fact
            row = longer
        if row:
            self.text(row)

    def sheet(self, columns: Sequence[Column]) -> None:
        rendered = table(columns, self.width)
        if self.width:
            self._out.print(Padding(rendered, (0, 0, 0, 1), expand=False))
            return
        # A pipe has no width: make room for the widest line, and leave no blanks behind its end.
        endless = Console(file=io.StringIO(), width=10_000, color_system=None)
        with endless.capture() as capture:
            endless.print(rendered)
        for line in capture.get().splitlines():
            self.text(line.rstrip())

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None when the result goes into a pipe or a file."""
        return self._out.width if self._out.is_terminal else None

    # ---------------------------------------------------------------- talk

    def note(self, text: str) -> None:
        if not self.quiet:
            self._err.print(Text(text, style="dim"), soft_wrap=True)

    def report(self, kind: str, text: str) -> None:
        """``error: ...``, ``hint: ...``, ``warning: ...``: always one line."""
        style = {"error": "bold red", "warning": "bold yellow", "hint": "bold cyan"}.get(kind, "dim")
        self._err.print(Text.assemble((f"{kind}:", style), " ", " ".join(text.split("\n"))), soft_wrap=True)

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[str, int], None]]:
        """A bar for a long run; call what is yielded with (what is going on, units done in all)."""
        if self.quiet or not self._err.is_terminal:
            yield lambda *_: None
            return
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=self._err,
            transient=True,
        )
        task = bar.add_task("", total=total)
        began = time.monotonic()

        def update(description: str, done: int) -> None:
            bar.update(task, description=description, completed=done)
            if time.monotonic() - began > _PATIENCE:
                bar.start()

        try:
            yield update
        finally:
            bar.stop()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """From here to the end an interrupt would leave half a result: it is ignored for that moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
