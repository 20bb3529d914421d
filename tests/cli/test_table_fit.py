"""Tables on narrow terminals: which columns stay."""

from hybrid_scheduler.cli.printer import EXTRA, Column, fitting

NAME = Column("name", ["a" * 10], number=False)
FIRST = Column("first", ["1"], 1)
SECOND = Column("second", ["2"], 2)
EXTRAS = Column("extra", ["3"], EXTRA)
ALL = [NAME, SECOND, FIRST, EXTRAS]


def headers(width: int | None) -> tuple[list[str], int]:
    kept, gap = fitting(ALL, width)
    return [column.header for column in kept], gap


def test_wide_terminal_keeps_all_columns() -> None:
    everything = ["name", "second", "first", "extra"]
    assert headers(None) == (everything, 2)
    assert headers(1 + 10 + 2 + 6 + 2 + 5 + 2 + 5) == (everything, 2)


def test_extra_columns_are_dropped_first() -> None:
    assert headers(10 + 2 + 6 + 2 + 5 + 2 + 5) == (["name", "second", "first"], 2)


def test_gap_shrinks_before_a_column_is_dropped() -> None:
    assert headers(1 + 10 + 1 + 6 + 1 + 5) == (["name", "second", "first"], 1)


def test_highest_rank_is_dropped_first() -> None:
    assert headers(10 + 1 + 6 + 1 + 5) == (["name", "first"], 1)


def test_rank_0_is_never_dropped() -> None:
    assert headers(3) == (["name"], 1)


def test_width_is_counted_in_cells() -> None:
    assert Column("x\nlonger", ["★ ab", "漢字漢字"]).width == 8
