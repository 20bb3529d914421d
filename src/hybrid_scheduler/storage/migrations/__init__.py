"""Steps from one version of the schema to the next. `schema.upgrade` runs them; `alembic.ini` is not needed."""
