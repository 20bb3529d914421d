"""Durable history in SQLite or PostgreSQL, with cache and event bus in Redis or in this process."""

from .database import Database, DatabaseUnavailable, DatabaseUnusable, open_database
from .database_address import DatabaseAddress
from .journal_writer import SqlJournal
from .repository import EventsPage, Repository

__all__ = [
    "Database",
    "DatabaseAddress",
    "DatabaseUnavailable",
    "DatabaseUnusable",
    "EventsPage",
    "Repository",
    "SqlJournal",
    "open_database",
]
