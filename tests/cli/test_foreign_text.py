"""Text from outside is printed as text: no markup is interpreted, and no control character reaches the terminal."""

import os
import pty
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from hybrid_scheduler.cli.printer import Column, Printer

RUDE = "[/x] [red]a\x1b[2J\x9b31m\u202eb"
SHOWN = "[/x] [red]a␛[2J\ufffd31m\ufffdb"


def shown_by(act: Callable[[Printer], None], capsys: pytest.CaptureFixture[str]) -> str:
    act(Printer())
    found = capsys.readouterr()
    return found.out + found.err


@pytest.mark.parametrize(
    "act",
    [
        lambda printer: printer.text(RUDE),
        lambda printer: printer.text(Text(RUDE, style="bold")),
        lambda printer: printer.facts([RUDE, RUDE]),
        lambda printer: printer.table([Column(RUDE, [RUDE, Text(RUDE)], number=False)]),
        lambda printer: printer.note(RUDE),
        lambda printer: printer.report("error", RUDE),
        lambda printer: printer.report(RUDE, "words"),
    ],
    ids=["text", "styled", "facts", "table", "note", "error", "kind"],
)
def test_every_way_to_print_shows_foreign_text_as_it_is(
    act: Callable[[Printer], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert SHOWN in shown_by(act, capsys)


def test_terminal_gets_no_foreign_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "100")
        printer = Printer()
        printer.text(RUDE)
        printer.table([Column("name", [RUDE], number=False)])
        with printer.progress(10) as update:
            update(RUDE, 1)
        terminal.flush()
        seen = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert seen.count(SHOWN) >= 2
    for mark in ("\x1b[2J", "\x9b", "\u202e"):
        assert mark not in seen


def test_unknown_names_in_errors_are_shown_as_text(run: Any) -> None:
    result = run("simulate", "--scenario", "[/x]\x1b[2J", "--tasks", "5")
    assert result.exit_code == 2
    assert "[/x]" in result.stderr
    assert "\x1b[2J" not in result.stderr


def test_trace_with_rude_column_names_is_refused_as_text(run: Any) -> None:
    Path("rude.csv").write_text("a[/x]\x1b[2J,size\n1,2\n", encoding="utf-8")
    result = run("import", "rude.csv", "--format", "csv")
    assert result.exit_code == 2
    assert "\x1b" not in result.output
