"""Number formats for tables: three significant digits, in one unit per column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

NOTHING = "–"


def significant(value: float | None) -> str:
    """Return three significant digits (1.02, 23.4, 0.0307, 812000), or a dash for None and NaN."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    rounded, _, exponent = f"{value:.2e}".partition("e")  # rounding first: 9.996 has the exponent of 10.0
    power = int(exponent)
    if not -4 <= power <= 5:
        return f"{rounded}e{power}"
    return f"{float(f'{rounded}e{power}'):.{max(0, 2 - power)}f}"


def three_decimals(value: float | None) -> str:
    """Return three decimals, for indices between 0 and 1, where 0.998 and 0.980 should line up."""
    return NOTHING if value is None or math.isnan(value) else f"{value:.3f}"


def percent(share: float | None) -> str:
    """Return a share as whole per cent."""
    return NOTHING if share is None or math.isnan(share) else f"{100 * share:.0f}%"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its symbol and its size in base units."""

    symbol: str
    size: float = 1.0

    def show(self, value: float | None) -> str:
        """Return a value of the base unit as a number in this unit, without the symbol."""
        return significant(None if value is None else value / self.size)


SECONDS = (Unit("µs", 1e-6), Unit("ms", 1e-3), Unit("s"))
JOULES = (Unit("mJ", 1e-3), Unit("J"), Unit("kJ", 1e3), Unit("MJ", 1e6), Unit("GJ", 1e9))
DOLLARS = (Unit("µ$", 1e-6), Unit("m$", 1e-3), Unit("$"))


def unit_for(values: Iterable[float | None], units: tuple[Unit, ...]) -> Unit:
    """Return the largest unit in which the median of the values is at least 1."""
    known = [value for value in values if value is not None and math.isfinite(value) and value > 0]
    middle = median(known) if known else 1.0
    fitting = [unit for unit in units if unit.size <= middle]
    return fitting[-1] if fitting else units[0]


def with_unit(value: float | None, units: tuple[Unit, ...]) -> str:
    """Return one number with its unit, such as "201 s"."""
    unit = unit_for([value], units)
    return f"{unit.show(value)} {unit.symbol}"
