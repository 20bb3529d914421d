"""Reference pages: current with the code."""

import make_reference
from guide_reference.tools import table


def test_reference_pages_are_current():
    assert make_reference.stale() == [], "run python scripts/make_reference.py"


def test_bars_in_table_cells_are_escaped():
    assert table(("a", "b"), [("x|y", 1)]) == "| a | b |\n|---|---|\n| x\\|y | 1 |\n"
