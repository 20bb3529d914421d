"""Durable history in SQLite or PostgreSQL, with cache and event bus in Redis or in this process."""

from typing import TYPE_CHECKING

from .._lazy_exports import lazy_exports
from ..core import require

if TYPE_CHECKING:
    from .database import Database as Database
    from .database import DatabaseAddress as DatabaseAddress
    from .database import DatabaseUnavailable as DatabaseUnavailable
    from .database import DatabaseUnusable as DatabaseUnusable
    from .database import open_database as open_database
    from .journal_writer import SqlJournal as SqlJournal
    from .repository import EventsPage as EventsPage
    from .repository import Repository as Repository

for _library in ("sqlalchemy", "orjson"):
    require(_library, "the database")

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
