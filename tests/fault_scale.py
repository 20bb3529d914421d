"""Amounts of the campaign of faults: a few in every run of the tests, all with `./run_tests.sh --faults`.

The environment variable HYBRID_FAULTS is "full", or a share of the full amounts such as 0.05.
"""

import os

_TEXT = os.environ.get("HYBRID_FAULTS", "few")
_SHARE = {"few": 0.0, "full": 1.0}[_TEXT] if _TEXT in ("few", "full") else float(_TEXT)
FULL = _SHARE > 0.0


def amount(few: int, full: int) -> int:
    """Return the number of repetitions."""
    return max(few, round(_SHARE * full))
