"""The tables. Migrations create them; `verify` compares a live database with what stands here.

Numbers of tasks, results and events are given by the engine and never used twice, so nothing here counts by itself
but commands and model versions. Floats may be empty: NaN, "there is none", is NULL in both databases.
"""

from __future__ import annotations

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

#: In SQLite only INTEGER PRIMARY KEY is the row's own number; its integers have 64 bits anyway.
Number = BigInteger().with_variant(Integer, "sqlite")

#: Compared byte by byte in both databases, so that they agree on every order.
Words = Text().with_variant(TEXT(collation="C"), "postgresql")

runs = Table(
    "runs",
    metadata,
    Column("run_id", Words, primary_key=True),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("status", Words, nullable=False),
    Column("source", Words, nullable=False),
    Column("scenario", Words, nullable=False),
    Column("utilisation", Double),
    Column("seed", Number, nullable=False),
    Column("platform", Words, nullable=False),
    Column("schedulers", JSON, nullable=False),
    Column("config", JSON, nullable=False),
    Column("config_hash", Words, nullable=False),
    #: Tasks since it began; deleting history does not lower it.
    Column("tasks", Number, nullable=False),
    #: The checkpoint, JSON.
    Column("state", Words),
    #: Names of the platform's devices, in its order.
    Column("devices", JSON, nullable=False),
    #: The longest latency of each scheduler so far: bounds how far back a view of a time window must look, which
    #: an index on times would do at twice the price of every stored row.
    Column("longest", JSON, nullable=False),
)

tasks = Table(
    "tasks",
    metadata,
    Column("task_id", Number, primary_key=True, autoincrement=False),
    Column("run_id", Words, ForeignKey("runs.run_id"), nullable=False),
    Column("ordinal", Number, nullable=False),
    Column("external_id", Words),
    Column("size", Double),
    Column("compute_intensity", Double),
    Column("memory_required", Double),
    Column("arrival_time", Double),
    Column("dependencies", JSON, nullable=False),
    Column("kind", Words, nullable=False),
    Column("recorded_at", Double, nullable=False),
    Index(None, "run_id", "ordinal"),
)
# Only users' tasks have one, and those are few.
Index(
    "ix_tasks_external_id",
    tasks.c.external_id,
    postgresql_where=tasks.c.external_id.is_not(None),
    sqlite_where=tasks.c.external_id.is_not(None),
)

scheduler_results = Table(
    "scheduler_results",
    metadata,
    Column("id", Number, primary_key=True, autoincrement=False),
    Column("task_id", Number, ForeignKey("tasks.task_id"), nullable=False),
    Column("run_id", Words, nullable=False),
    Column("scheduler_name", Words, nullable=False),
    Column("device", Words, nullable=False),
    Column("gpu_fraction", Double),
    Column("actual_time", Double),
    Column("latency", Double),
    Column("start_time", Double),
    Column("finish_time", Double),
    Column("cpu_start", Double),
    Column("cpu_time", Double),
    Column("gpu_start", Double),
    Column("gpu_time", Double),
    Column("energy_consumption", Double),
    Column("execution_cost", Double),
    Column("regret", Double),
    Column("predicted_time", Double),
    Column("status", Words, nullable=False),
    Column("model_version", Integer),
    UniqueConstraint("task_id", "scheduler_name"),
)

training_data = Table(
    "training_data",
    metadata,
    Column("task_id", Number, ForeignKey("tasks.task_id"), primary_key=True, autoincrement=False),
    Column("size", Double),
    Column("compute_intensity", Double),
    Column("memory_required", Double),
    Column("optimal_gpu_fraction", Double),
    Column("optimal_time", Double),
)

model_versions = Table(
    "model_versions",
    metadata,
    Column("id", Number, primary_key=True),
    Column("run_id", Words, ForeignKey("runs.run_id"), nullable=False),
    Column("scheduler_name", Words, nullable=False),
    Column("version", Integer, nullable=False),
    Column("samples", Number, nullable=False),
    Column("r2", Double),
    Column("trigger", Words, nullable=False),
    Column("at_task", Number, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("seconds", Double),
    UniqueConstraint("run_id", "scheduler_name", "version"),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    metadata,
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("run_id", Words, nullable=False),
    Column("type", Words, nullable=False),
    Column("t", Double),
    Column("created_at", Double, nullable=False),
    #: The very bytes that clients get.
    Column("payload", Words, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", Words, primary_key=True),
    Column("fingerprint", Words, nullable=False),
    Column("task_id", Number, nullable=False, index=True),
    Column("created_at", Double, nullable=False),
)

commands = Table(
    "commands",
    metadata,
    Column("id", Number, primary_key=True),
    Column("kind", Words, nullable=False),
    Column("payload", Words, nullable=False),
    #: By the database's clock, the only one that both sides share.
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
    #: Set before it is carried out: a command runs at most once, even if the engine dies over it.
    Column("taken_at", Double),
    Column("answered_at", Double),
    Column("ok", Boolean),
    Column("answer", Words),
    sqlite_autoincrement=True,
)

meta = Table(
    "meta",
    metadata,
    Column("key", Words, primary_key=True),
    Column("value", Words, nullable=False),
)
