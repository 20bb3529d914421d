"""What can be wrong with a database, as a person has to know it."""

from __future__ import annotations

from ..core import HybridSchedulerError


class DatabaseUnavailable(HybridSchedulerError):
    """The database does not answer now. It may do so later; nothing has to be changed for that."""


class DatabaseUnusable(HybridSchedulerError):
    """The database answers, but it cannot be used as it is: foreign, damaged, or of another version."""
