"""Alembic environment.

Alembic runs this file as a script, so imports are absolute. The connection comes from
`hybrid_scheduler.storage.schema_version`.
"""

from alembic import context

from hybrid_scheduler.storage.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
)
with context.begin_transaction():
    context.run_migrations()
