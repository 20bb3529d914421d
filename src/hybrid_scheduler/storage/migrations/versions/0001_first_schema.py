"""First version of the schema."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import TEXT

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_Integer64 = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_Text = sa.Text().with_variant(TEXT(collation="C"), "postgresql")


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "commands",
        sa.Column("id", _Integer64, nullable=False),
        sa.Column("kind", _Text, nullable=False),
        sa.Column("payload", _Text, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("taken_at", sa.Double()),
        sa.Column("answered_at", sa.Double()),
        sa.Column("ok", sa.Boolean()),
        sa.Column("answer", _Text),
        sa.PrimaryKeyConstraint("id", name="pk_commands"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "events",
        sa.Column("seq", _Integer64, autoincrement=False, nullable=False),
        sa.Column("run_id", _Text, nullable=False),
        sa.Column("type", _Text, nullable=False),
        sa.Column("t", sa.Double()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("payload", _Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_events"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("key", _Text, nullable=False),
        sa.Column("fingerprint", _Text, nullable=False),
        sa.Column("task_id", _Integer64, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_task_id", "idempotency_keys", ["task_id"])
    op.create_table(
        "meta",
        sa.Column("key", _Text, nullable=False),
        sa.Column("value", _Text, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_meta"),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", _Text, nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("status", _Text, nullable=False),
        sa.Column("source", _Text, nullable=False),
        sa.Column("scenario", _Text, nullable=False),
        sa.Column("utilisation", sa.Double()),
        sa.Column("seed", _Integer64, nullable=False),
        sa.Column("platform", _Text, nullable=False),
        sa.Column("schedulers", sa.JSON(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("config_hash", _Text, nullable=False),
        sa.Column("tasks", _Integer64, nullable=False),
        sa.Column("state", _Text),
        sa.Column("devices", sa.JSON(), nullable=False),
        sa.Column("longest", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_runs"),
    )
    op.create_table(
        "model_versions",
        sa.Column("id", _Integer64, nullable=False),
        sa.Column("run_id", _Text, nullable=False),
        sa.Column("scheduler_name", _Text, nullable=False),
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
        sa.Column("size", sa.Double()),
        sa.Column("compute_intensity", sa.Double()),
        sa.Column("memory_required", sa.Double()),
        sa.Column("arrival_time", sa.Double()),
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
        sa.Column("run_id", _Text, nullable=False),
        sa.Column("scheduler_name", _Text, nullable=False),
        sa.Column("device", _Text, nullable=False),
        sa.Column("gpu_fraction", sa.Double()),
        sa.Column("actual_time", sa.Double()),
        sa.Column("latency", sa.Double()),
        sa.Column("start_time", sa.Double()),
        sa.Column("finish_time", sa.Double()),
        sa.Column("cpu_start", sa.Double()),
        sa.Column("cpu_time", sa.Double()),
        sa.Column("gpu_start", sa.Double()),
        sa.Column("gpu_time", sa.Double()),
        sa.Column("energy_consumption", sa.Double()),
        sa.Column("execution_cost", sa.Double()),
        sa.Column("regret", sa.Double()),
        sa.Column("predicted_time", sa.Double()),
        sa.Column("status", _Text, nullable=False),
        sa.Column("model_version", sa.Integer()),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name="fk_scheduler_results_task_id"),
        sa.PrimaryKeyConstraint("id", name="pk_scheduler_results"),
        sa.UniqueConstraint("task_id", "scheduler_name", name="uq_scheduler_results_task_id_scheduler_name"),
    )
    op.create_table(
        "training_data",
        sa.Column("task_id", _Integer64, autoincrement=False, nullable=False),
        sa.Column("size", sa.Double()),
        sa.Column("compute_intensity", sa.Double()),
        sa.Column("memory_required", sa.Double()),
        sa.Column("optimal_gpu_fraction", sa.Double()),
        sa.Column("optimal_time", sa.Double()),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.task_id"], name="fk_training_data_task_id"),
        sa.PrimaryKeyConstraint("task_id", name="pk_training_data"),
    )
