"""Schema of the first release, from which older databases are upgraded.

A new database gets the newest tables at once, see `schema_version.upgrade_connection`.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: every database of that release has its tables."""
