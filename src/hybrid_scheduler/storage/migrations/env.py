"""Run by Alembic. The connection comes from `hybrid_scheduler.storage.schema_version`."""

from alembic import context

from ..tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by copying it
)
with context.begin_transaction():
    context.run_migrations()
