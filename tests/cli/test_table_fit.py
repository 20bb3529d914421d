"""What stays in a table that has too little room."""

from hybrid_scheduler.cli.table import EXTRA, Column, fitting

NAME = Column("name", ["a" * 10], number=False)
FIRST = Column("first", ["1"], 1)
SECOND = Column("second", ["2"], 2)
EXTRAS = Column("extra", ["3"], EXTRA)
ALL = [NAME, SECOND, FIRST, EXTRAS]


def headers(width: int | None) -> tuple[list[str], int]:
    shown, gap = fitting(ALL, width)
    return [column.header for column in shown], gap


def test_everything_fits() -> None:
    everything = ["name", "second", "first", "extra"]
    assert headers(None) == (everything, 2)
    assert headers(1 + 10 + 2 + 6 + 2 + 5 + 2 + 5) == (everything, 2)


def test_extras_go_first_and_never_squeeze_the_others() -> None:
    assert headers(10 + 2 + 6 + 2 + 5 + 2 + 5) == (["name", "second", "first"], 2)


def test_columns_move_closer_before_one_is_dropped() -> None:
    assert headers(1 + 10 + 1 + 6 + 1 + 5) == (["name", "second", "first"], 1)


def test_the_least_important_is_dropped_and_the_order_kept() -> None:
    assert headers(10 + 1 + 6 + 1 + 5) == (["name", "first"], 1)


def test_rank_0_stays_however_narrow() -> None:
    assert headers(3) == (["name"], 1)


def test_width_is_counted_in_cells() -> None:
    assert Column("x\nlonger", ["★ ab", "漢字漢字"]).width == 8
