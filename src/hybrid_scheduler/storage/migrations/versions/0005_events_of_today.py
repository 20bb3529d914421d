"""Deletion of updates with the field names of version 0.1.0, which nothing reads any more."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Delete updates and log lines up to the last such update, as when old events are pruned."""
    old = "type = 'simulation_update' AND payload LIKE '%\"avg_latency\":%'"
    last = op.get_bind().scalar(sa.text(f"SELECT max(seq) FROM events WHERE {old}"))
    if last is not None:
        op.execute(f"DELETE FROM events WHERE seq <= {last} AND type IN ('simulation_update', 'log')")
        op.execute("DELETE FROM meta WHERE key = 'pruned_seq'")
        op.execute(f"INSERT INTO meta (key, value) VALUES ('pruned_seq', '{last}')")
