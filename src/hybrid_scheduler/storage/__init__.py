"""Durable history: SQLite or PostgreSQL for rows, Redis or this process for cache and event bus."""
