"""Column for tasks that may not be split."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; stored tasks may be split."""
    op.add_column("tasks", sa.Column("divisible", sa.Boolean(), nullable=False, server_default=sa.true()))
