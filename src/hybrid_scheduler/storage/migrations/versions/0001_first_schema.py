"""First version of the schema."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_Integer64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Text = sa.Text().with_variant(TEXT(collation="C"), "postgresql")
_RESULT_FLOATS = (
    "gpu_fraction", "actual_time", "latency", "start_time", "finish_time", "cpu_start", "cpu_time", "gpu_start",
    "gpu_time", "energy_consumption", "execution_cost", "regret", "predicted_time",
)  # fmt: skip


def _columns(kind: sa.types.TypeEngine[Any], *names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names]


def _floats(*names: str) -> list[sa.Column[Any]]:
    return _columns(sa.Double(), *names, nullable=True)


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "commands",
        sa.Column("id", _Integer64, nullable=False),
        *_columns(_Text, "kind", "payload"),
        *_columns(sa.Double(), "created_at", "expires_at"),
        *_floats("taken_at", "answered_at"),
        sa.Column("ok", sa.Boolean()),
        sa.Column("answer", _Text),
        sa.PrimaryKeyConstraint("id", name="pk_commands"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "events",
        sa.Column("seq", _Integer64, autoincrement=False, nullable=False),
        *_columns(_Text, "run_id", "type"),
        sa.Column("t", sa.Double()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("payload", _Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
    )
    op.create_table(
        "idempotency_keys",
        *_columns(_Text, "key", "fingerprint"),
        sa.Column("task_id", _Integer64, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_task_id", "idempotency_keys", ["task_id"])
    op.create_table(
        "meta",
        *_columns(_Text, "key", "value"),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", _Text, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        *_columns(_Text, "status", "source", "scenario"),
        sa.Column("utilisation", sa.Double()),
        sa.Column("seed", _Integer64, nullable=False),
        sa.Column("platform", _Text, nullable=False),
        *_columns(sa.JSON(), "schedulers", "config"),
        sa.Column("config_hash", _Text, nullable=False),
        sa.Column("tasks", _Integer64, nullable=False),
        sa.Column("state", _Text),
        *_columns(sa.JSON(), "devices", "longest"),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
    )
    op.create_table(
        "model_versions",
        sa.Column("id", _Integer64, nullable=False),
        *_columns(_Text, "run_id", "scheduler_name"),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("samples", _Integer64, nullable=False),
        sa.Column("r2", sa.Double()),
        sa.Column("trigger", _Text, nullable=False),
        sa.Column("at_task", _Integer64, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double()),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_model_versions_run_id"),
        sa.PrimaryKeyConstraint("id", name="pk_model_versions"),
        sa.UniqueConstraint(
            "run_id", "scheduler_name", "version", name="uq_model_versions_run_id_scheduler_name_version"
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "tasks",
        sa.Column("task_id", _Integer64, autoincrement=False, nullable=False),
        sa.Column("run_id", _Text, nullable=False),
        sa.Column("ordinal", _Integer64, nullable=False),
        sa.Column("external_id", _Text),
        *_floats("size", "compute_intensity", "memory_required", "arrival_time"),
        sa.Column("dependencies", sa.JSON(), nullable=False),
        sa.Column("kind", _Text, nullable=False),
        sa.Column("recorded_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name="fk_tasks_run_id"),
        sa.PrimaryKeyConstraint("task_id", name="pk_tasks"),
    )
    op.create_index(
        "ix_tasks_external_id",
        "tasks",
        ["external_id"],
        postgresql_where=sa.text("external_id IS NOT NULL"),
        sqlite_where=sa.text("external_id IS NOT NULL"),
    )
    op.create_index("ix_tasks_run_id_ordinal", "tasks", ["run_id", "ordinal"])
    op.create_table(
        "scheduler_results",
        sa.Column("id", _Integer64, autoincrement=False, nullable=False),
        sa.Column("task_id", _Integer64, nullable=False),
        *_columns(_Text, "run_id", "scheduler_name", "device"),
        *_floats(*_RESULT_FLOATS),
        sa.Column("status", _Text, nullable=False),
        sa.Column("model_version", sa.Integer()),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name="fk_scheduler_results_task_id"),
        sa.PrimaryKeyConstraint("id", name="pk_scheduler_results"),
        sa.UniqueConstraint("task_id", "scheduler_name", name="uq_scheduler_results_task_id_scheduler_name"),
    )
    op.create_table(
        "training_data",
        sa.Column("task_id", _Integer64, autoincrement=False, nullable=False),
        *_floats("size", "compute_intensity", "memory_required", "optimal_gpu_fraction", "optimal_time"),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name="fk_training_data_task_id"),
        sa.PrimaryKeyConstraint("task_id", name="pk_training_data"),
    )
