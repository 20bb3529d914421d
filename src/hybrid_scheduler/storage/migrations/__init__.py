"""Alembic migrations of the schema, run by `schema_version.upgrade_connection`."""
