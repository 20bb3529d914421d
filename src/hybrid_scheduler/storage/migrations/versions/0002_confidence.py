"""Confidence of each decision."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; earlier rows have none."""
    op.add_column("scheduler_results", sa.Column("confidence", sa.Double()))
