"""Error and loss of each model version."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns; earlier versions have neither."""
    op.add_column("model_versions", sa.Column("error", sa.Double()))
    op.add_column("model_versions", sa.Column("loss", sa.Double()))
