"""What became of a file's rows."""

from __future__ import annotations

from dataclasses import dataclass

from ..core import InvalidInputError


@dataclass(frozen=True, slots=True)
class Rejection:
    """A row that could not be used: where, which column, what is allowed and what came.

    Lines count from 1, the header included; in Parquet, which has no lines, rows do. The column is "row" when
    the row as a whole could not be read.
    """

    line: int
    field: str
    allowed: str
    got: object

    @property
    def reason(self) -> str:
        return str(InvalidInputError(self.field, self.allowed, self.got)).removeprefix(f"{self.field}: ")


@dataclass(frozen=True, slots=True)
class ReadReport:
    """How many rows were read and kept, which were rejected and why, and what each column was taken for.

    Of the rejected rows the first 1,000 are listed, in file order: a file of another kind has millions.
    """

    rows_read: int
    rows_kept: int
    rejected: tuple[Rejection, ...]
    mapping: dict[str, str]
    ignored_columns: tuple[str, ...]

    @property
    def rows_rejected(self) -> int:
        return self.rows_read - self.rows_kept


class Rejections:
    """Counts every bad row and remembers the first ones. Rows are reported in file order."""

    LISTED = 1000

    def __init__(self) -> None:
        self.count = 0
        self.listed: list[Rejection] = []

    def count_in(self, rows: list[int]) -> list[int]:
        """Counts these bad rows and says which of them are still to be listed."""
        self.count += len(rows)
        return rows[: self.LISTED - len(self.listed)]

    def add(self, line: int, field: str, allowed: str, got: object) -> None:
        """Lists a row that was counted in."""
        self.listed.append(Rejection(line, field, allowed, got))

    def merged(self, later: Rejections) -> Rejections:
        """Both together, in file order again."""
        both = Rejections()
        both.count = self.count + later.count
        both.listed = sorted([*self.listed, *later.listed], key=lambda bad: bad.line)[: self.LISTED]
        return both
