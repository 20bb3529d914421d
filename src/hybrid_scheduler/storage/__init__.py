"""Durable history: SQLite or PostgreSQL for rows, Redis or this process for cache and event bus."""

from .database import Database, open_database
from .database_address import DatabaseAddress
from .errors import DatabaseUnavailable, DatabaseUnusable
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
