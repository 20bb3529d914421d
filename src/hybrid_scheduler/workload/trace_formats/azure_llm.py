"""Reader of the Azure LLM inference traces: one request per row, with its input and output tokens."""

from __future__ import annotations

from pathlib import Path

from ..trace_columns import Rows
from .reader_tools import TaskCollector, calendar_seconds, number, table_of

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MAPPING = {
    "arrival_time": "TIMESTAMP",
    "size": "ContextTokens + GeneratedTokens (the trace has no durations)",
    "compute_intensity": "ContextTokens / all tokens: reading a prompt computes, writing an answer moves memory",
    "memory_required": "0.5 MB of attention cache per token",
    "external_id": "the row's number",
}
_MEGABYTES_PER_TOKEN = 0.5


def read_azure(path: Path, scale: float) -> Rows:
    """Return the rows of a file; `scale` multiplies all times and amounts of data."""
    tasks = TaskCollector(scale)
    for line, row in tasks.whole_rows(table_of(path, COLUMNS)):
        arrival = calendar_seconds(row["TIMESTAMP"])
        context = number(row["ContextTokens"])
        generated = number(row["GeneratedTokens"])
        if arrival is None:
            tasks.reject(line, "TIMESTAMP", "a time such as 2023-11-16 18:17:03.97", row["TIMESTAMP"])
        elif not context >= 0:
            tasks.reject(line, "ContextTokens", "a number >= 0", row["ContextTokens"])
        elif not generated >= 0 or context + generated == 0:
            tasks.reject(line, "GeneratedTokens", "a number >= 0, and some token at all", row["GeneratedTokens"])
        else:
            tokens = context + generated
            tasks.add(
                line,
                f"request-{line - 1}",
                size=tasks.scaled_size(tokens),
                intensity=context / tokens,
                memory=tokens * _MEGABYTES_PER_TOKEN,
                arrival=arrival,
                kind="llm",
            )
    return tasks.rows()
