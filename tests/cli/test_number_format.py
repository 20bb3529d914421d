"""Three significant digits, whatever the size."""

import math

import pytest

from hybrid_scheduler.cli.printer import (
    DOLLARS,
    JOULES,
    SECONDS,
    percent,
    significant,
    three_decimals,
    unit_for,
    with_unit,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1.00"),
        (1.019, "1.02"),
        (9.996, "10.0"),
        (23.44, "23.4"),
        (99.95, "100"),
        (812345, "812000"),
        (999999, "1.00e6"),
        (0.0307, "0.0307"),
        (0.00012345, "0.000123"),
        (0.000012345, "1.23e-5"),
        (-2.5, "-2.50"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_significant_has_three_digits(value: float | None, text: str) -> None:
    assert significant(value) == text


def test_unit_fits_the_median() -> None:
    assert unit_for([0.02, 0.05, 900.0], SECONDS).symbol == "ms"
    assert unit_for([2e-5], SECONDS).symbol == "µs"
    assert unit_for([1e-9], SECONDS).symbol == "µs"
    assert unit_for([5000.0, math.nan, None, math.inf], JOULES).symbol == "kJ"
    assert unit_for([], DOLLARS).symbol == "$"


def test_number_is_printed_with_its_unit() -> None:
    assert with_unit(0.0123, SECONDS) == "12.3 ms"
    assert with_unit(201, SECONDS) == "201 s"


def test_shares_are_per_cent_or_decimals() -> None:
    assert (percent(0.356), percent(None), percent(math.nan)) == ("36%", "–", "–")
    assert (three_decimals(0.98), three_decimals(None)) == ("0.980", "–")
