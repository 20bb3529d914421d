"""Printer of all commands: results to stdout, messages and progress to stderr."""

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

#: Seconds until a progress bar appears: one that vanishes at once only flickers.
_BAR_AFTER_S = 0.5


class Printer:
    """Writer to stdout and stderr as they are when it is created."""

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
        """Print one strict JSON document, in one write."""
        self._out.file.write(pretty_json(content))
        self._out.file.flush()

    def text(self, text: str | Text = "") -> None:
        """Print a line of the result; on a terminal it wraps between words."""
        if self.width and text:
            self._out.print(Padding(Text.assemble(text), (0, 1), expand=False))
        else:
            self._out.print(text, soft_wrap=True)

    def facts(self, facts: Sequence[str]) -> None:
        """Print short facts in a row; where they do not fit, the line breaks between two of them."""
        row = ""
        for fact in facts:
            longer = f"{row} · {fact}" if row else fact
            if row and self.width and cell_len(longer) > self.width - 2:
                self.text(row)
                longer = fact
            row = longer
        if row:
            self.text(row)

    def table(self, columns: Sequence[Column]) -> None:
        """Print a table; on a terminal only the columns that fit."""
        rendered = table(columns, self.width)
        if self.width:
            self._out.print(Padding(rendered, (0, 0, 0, 1), expand=False))
            return
        # A pipe has no width: allow any line length, and strip the blanks at the end.
        endless = Console(file=io.StringIO(), width=10_000, color_system=None)
        with endless.capture() as capture:
            endless.print(rendered)
        for line in capture.get().splitlines():
            self.text(line.rstrip())

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None when the result goes into a pipe or a file."""
        return self._out.width if self._out.is_terminal else None

    # ---------------------------------------------------------------- messages

    def note(self, text: str) -> None:
        """Print a remark to stderr, unless the user wants only results."""
        if not self.quiet:
            self._err.print(Text(text, style="dim"), soft_wrap=True)

    def report(self, kind: str, text: str) -> None:
        """Print ``error: ...``, ``hint: ...`` or ``warning: ...`` to stderr, always as one line."""
        style = {"error": "bold red", "warning": "bold yellow", "hint": "bold cyan"}.get(kind, "dim")
        self._err.print(Text.assemble((f"{kind}:", style), " ", " ".join(text.split("\n"))), soft_wrap=True)

    @contextmanager
    def progress(self, total: int) -> Iterator[Callable[[str, int], None]]:
        """Show a progress bar on a terminal.

        Parameters
        ----------
        total
            Units of the whole run.

        Yields
        ------
        callable
            Takes a description of the present step and the units done so far.
        """
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
            if time.monotonic() - began > _BAR_AFTER_S:
                bar.start()

        try:
            yield update
        finally:
            bar.stop()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignore interrupts within this block, where one would leave half a result."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
