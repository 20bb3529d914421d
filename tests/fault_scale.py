"""Amounts of the campaign of faults: a few in every run of the tests, all with `./run_tests.sh --faults`."""

import os

FULL = os.environ.get("HYBRID_FAULTS") == "full"


def amount(few: int, full: int) -> int:
    """Return the number of repetitions."""
    return full if FULL else few
