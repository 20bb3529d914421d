"""Python warnings inside a command: one line on stderr, never the end of the command."""

import warnings

import pytest
import typer

from hybrid_scheduler.cli.app import Program


@pytest.mark.parametrize(
    ("category", "line"),
    [
        (UserWarning, "warning: clocks differ"),
        (RuntimeWarning, "warning: RuntimeWarning: clocks differ"),
        (DeprecationWarning, "warning: DeprecationWarning: clocks differ"),
    ],
)
def test_warning_is_a_line_on_stderr_although_warnings_are_errors(
    category: type[Warning], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = typer.Typer(cls=Program, add_completion=False)

    @app.command()
    def measure() -> None:
        warnings.warn("clocks differ", category, stacklevel=1)
        print("measured")

    @app.callback()
    def shared() -> None:
        """Make it a program with commands."""

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert app(["measure"], standalone_mode=False) == 0
        with pytest.raises(category):  # the caller's filters hold again
            warnings.warn("afterwards", category, stacklevel=1)
    output, errors = capsys.readouterr()
    assert output == "measured\n"
    assert errors == line + "\n"


def test_ignored_warning_stays_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer(cls=Program, add_completion=False)

    @app.command()
    def measure() -> None:
        warnings.warn("clocks differ", stacklevel=1)

    @app.callback()
    def shared() -> None:
        """Make it a program with commands."""

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert app(["measure"], standalone_mode=False) == 0
    assert capsys.readouterr().err == ""
