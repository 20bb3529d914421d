"""Durable history: SQLite or PostgreSQL for rows, Redis or this process for cache and event bus."""

from .address import DatabaseAddress
from .database import Database, open_database
from .errors import DatabaseAway, DatabaseUnusable
from .repository import EventsPage, Repository
from .writer import SqlJournal

__all__ = [
    "Database",
    "DatabaseAddress",
    "DatabaseAway",
    "DatabaseUnusable",
    "EventsPage",
    "Repository",
    "SqlJournal",
    "open_database",
]
