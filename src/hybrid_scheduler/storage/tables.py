"""Table definitions, by which new databases are made; `db verify` compares a database with them.

The engine assigns the numbers of tasks, results and events and never reuses one. Only commands and model versions
have numbers from the database. Floats may be empty: NaN is NULL in both databases.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    true,
)
from sqlalchemy.dialects.postgresql import TEXT

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

#: In SQLite only an INTEGER PRIMARY KEY is the row's own number; its integers have 64 bits.
_Integer64 = BigInteger().with_variant(Integer, "sqlite")

#: Text that both databases compare byte by byte, so that their orders agree.
_Text = Text().with_variant(TEXT(collation="C"), "postgresql")


def _floats(*names: str) -> list[Column[Any]]:
    return [Column(name, Double) for name in names]


runs = Table(
    "runs",
    metadata,
    Column("run_id", _Text, primary_key=True),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("status", _Text, nullable=False),
    Column("source", _Text, nullable=False),
    Column("scenario", _Text, nullable=False),
    Column("utilisation", Double),
    Column("seed", _Integer64, nullable=False),
    Column("platform", _Text, nullable=False),
    Column("schedulers", JSON, nullable=False),
    Column("config", JSON, nullable=False),
    Column("config_hash", _Text, nullable=False),
    #: Tasks since the run began; deleting history does not lower it.
    Column("tasks", _Integer64, nullable=False),
    #: The checkpoint, JSON.
    Column("state", _Text),
    #: Names of the platform's devices, in its order.
    Column("devices", JSON, nullable=False),
    #: Longest latency of each scheduler so far. It limits how far back a query for a time window must read; an
    #: index on times would double the cost of every stored row.
    Column("longest", JSON, nullable=False),
)

tasks = Table(
    "tasks",
    metadata,
    Column("task_id", _Integer64, primary_key=True, autoincrement=False),
    Column("run_id", _Text, ForeignKey("runs.run_id"), nullable=False),
    Column("ordinal", _Integer64, nullable=False),
    Column("external_id", _Text),
    *_floats("size", "compute_intensity", "memory_required", "arrival_time"),
    Column("dependencies", JSON, nullable=False),
    Column("kind", _Text, nullable=False),
    Column("recorded_at", Double, nullable=False),
    #: Whether an accelerator and its host may each run a part.
    Column("divisible", Boolean, nullable=False, server_default=true()),
    Index(None, "run_id", "ordinal"),
)
# Only submitted tasks have an external id, and those are few.
Index(
    "ix_tasks_external_id",
    tasks.c.external_id,
    postgresql_where=tasks.c.external_id.is_not(None),
    sqlite_where=tasks.c.external_id.is_not(None),
)

_RESULT_FLOATS = (
    "gpu_fraction", "actual_time", "latency", "start_time", "finish_time", "cpu_start", "cpu_time", "gpu_start",
    "gpu_time", "energy_consumption", "execution_cost", "regret", "predicted_time",
)  # fmt: skip
scheduler_results = Table(
    "scheduler_results",
    metadata,
    Column("id", _Integer64, primary_key=True, autoincrement=False),
    Column("task_id", _Integer64, ForeignKey("tasks.task_id"), nullable=False),
    Column("run_id", _Text, nullable=False),
    Column("scheduler_name", _Text, nullable=False),
    Column("device", _Text, nullable=False),
    *_floats(*_RESULT_FLOATS),
    #: Standard deviation of the predicted log seconds on the chosen device: 0.1 means about ten per cent.
    Column("confidence", Double),
    Column("status", _Text, nullable=False),
    Column("model_version", Integer),
    UniqueConstraint("task_id", "scheduler_name"),
)

training_data = Table(
    "training_data",
    metadata,
    Column("task_id", _Integer64, ForeignKey("tasks.task_id"), primary_key=True, autoincrement=False),
    *_floats("size", "compute_intensity", "memory_required", "optimal_gpu_fraction", "optimal_time"),
)

model_versions = Table(
    "model_versions",
    metadata,
    Column("id", _Integer64, primary_key=True),
    Column("run_id", _Text, ForeignKey("runs.run_id"), nullable=False),
    Column("scheduler_name", _Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("samples", _Integer64, nullable=False),
    Column("r2", Double),
    Column("trigger", _Text, nullable=False),
    Column("at_task", _Integer64, nullable=False),
    Column("created_at", Double, nullable=False),
    *_floats("seconds", "error", "loss"),
    UniqueConstraint("run_id", "scheduler_name", "version"),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    metadata,
    Column("seq", _Integer64, primary_key=True, autoincrement=False),
    Column("run_id", _Text, nullable=False),
    Column("type", _Text, nullable=False),
    Column("t", Double),
    Column("created_at", Double, nullable=False),
    #: The bytes that clients get.
    Column("payload", _Text, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", _Text, primary_key=True),
    Column("fingerprint", _Text, nullable=False),
    Column("task_id", _Integer64, nullable=False, index=True),
    Column("created_at", Double, nullable=False),
)

commands = Table(
    "commands",
    metadata,
    Column("id", _Integer64, primary_key=True),
    Column("kind", _Text, nullable=False),
    Column("payload", _Text, nullable=False),
    #: By the database's clock, which both sides share.
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    #: Set before the command is executed: it runs at most once, even if the engine dies meanwhile.
    Column("taken_at", Double),
    Column("answered_at", Double),
    Column("ok", Boolean),
    Column("answer", _Text),
    sqlite_autoincrement=True,
)

meta = Table(
    "meta",
    metadata,
    Column("key", _Text, primary_key=True),
    Column("value", _Text, nullable=False),
)
