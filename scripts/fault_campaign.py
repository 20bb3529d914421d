"""Campaign of injected faults: one row per promise, with the fault, the figure and the verdict.

    ./run_tests.sh --faults                     every fault, at most 25 minutes on two idle cores
    ./run_tests.sh --faults --soak              and ten minutes of a server under readers
    ./run_tests.sh --faults --large-history     and a history of ten million result rows
    ./run_tests.sh --faults --only poison       rows whose promise or fault matches
    ./run_tests.sh --faults --quick             the amounts of every run of the tests, without benchmarks
    ./run_tests.sh --faults --output FILE       also write the table to a file

Most faults are injected by tests, which every run of the tests contains with smaller amounts; HYBRID_FAULTS=full
makes them complete. The others are benchmarks. A row passes if all its tests pass, or if its program ends with
status 0.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent


class Row(NamedTuple):
    """A promise, the fault that tries it, and the tests or the program that inject the fault."""

    promise: str
    fault: str
    #: Node ids of pytest, or a benchmark with its arguments.
    tests: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    #: Lines of the program's output that are the figure.
    lines: str = r".+"


_OUTAGES, _PROCESS = "tests/faults/test_outages.py::test_", "tests/faults/test_process.py::test_"
_CRASHES, _FAULTS = "tests/storage/test_crashes.py::test_", "tests/storage/test_faults.py::test_"
_CLIENTS, _UPLOADS = "tests/server/test_hostile_clients.py::test_", "tests/server/test_uploads.py::test_"

ROWS = (
    Row(
        "acknowledged = durable",
        "kill -9 in cycles, SQLite",
        (_CRASHES + "nothing_acknowledged_is_lost_on_sqlite",),
    ),
    Row(
        "acknowledged = durable",
        "kill -9 in cycles, PostgreSQL",
        (_CRASHES + "nothing_acknowledged_is_lost_on_postgresql",),
    ),
    Row(
        "an fsync per acknowledged commit",
        "system calls counted",
        (_CRASHES + "every_acknowledged_commit_is_synced_to_disk",),
    ),
    Row(
        "a failed write is never acknowledged",
        "EIO and ENOSPC at system calls, full disk, full database",
        (
            _FAULTS + "an_io_error_is_never_acknowledged_and_the_next_write_succeeds_without_a_restart",
            _FAULTS + "full_disk_is_survived",
            _FAULTS + "a_full_database_acknowledges_nothing_and_recovers_by_itself",
        ),
    ),
    Row(
        "a commit without confirmation is stored once",
        "lost confirmation, both databases",
        (_FAULTS + "commit_with_a_lost_confirmation_is_not_stored_twice",),
    ),
    Row(
        "state returns after a restart",
        "kill -9 of a server, both databases",
        (_PROCESS + "killed_server_resumes_its_run",),
    ),
    Row("one engine per database", "second engine, both databases", (_PROCESS + "one_engine_per_database",)),
    Row(
        "one key stores one task",
        "failed writes, both databases",
        (_OUTAGES + "one_key_stores_one_task_and_one_id_one_run_while_writes_fail",),
    ),
    Row(
        "database unavailable: 503, nothing lost",
        "PostgreSQL stopped, killed and frozen",
        (
            _OUTAGES + "database_outage_gives_503_and_loses_nothing",
            _OUTAGES + "frozen_database_is_reported_and_blocks_nothing_else",
            _FAULTS + "restarted_server_loses_nothing",
            _FAULTS + "frozen_server_stores_everything_once_afterwards",
            _FAULTS + "frozen_server_is_unavailable_for_readers_and_back_afterwards",
        ),
    ),
    Row(
        "Redis unavailable: cache skipped, limits hold",
        "Redis frozen and stopped",
        (_OUTAGES + "frozen_redis_degrades_health_and_nothing_else", "tests/storage/test_redis.py"),
    ),
    Row(
        "split roles answer as one process",
        "engine and API in two processes, with and without Redis",
        (_OUTAGES + "engine_and_api_in_two_processes",),
    ),
    Row(
        "a writer that failed for good is not ready",
        "row refused for ever, both databases",
        (
            _OUTAGES + "writer_that_failed_for_good_is_not_ready",
            _PROCESS + "server_that_can_store_nothing_more_ends_with_status_1",
        ),
    ),
    Row(
        "foreign rows are skipped",
        "rows of another program in the live run, both databases",
        ("tests/contract/test_storage.py::test_foreign_row_among_the_tasks_is_skipped_and_found",),
    ),
    Row("shutdown is clean", "SIGTERM with open WebSockets", (_PROCESS + "sigterm_closes_open_websockets",)),
    Row(
        "damaged models are skipped",
        "damaged snapshots and manifests",
        ("tests/live/test_live_learning.py", "tests/learning/test_model_files.py"),
    ),
    Row(
        "hostile clients hurt only themselves",
        "half-sent requests, floods of frames, unread responses",
        ("tests/server/test_hostile_clients.py",),
    ),
    Row(
        "decoded size is limited",
        "decompression and decode bombs per format",
        (
            _UPLOADS + "decompression_bombs_are_refused",
            _UPLOADS + "small_file_that_decodes_to_much_is_413",
            _UPLOADS + "reading_takes_at_most_64_mib_more_than_the_limit",
        ),
    ),
    Row(
        "bad input never gets 5xx",
        "poison values in every field of every route",
        ("tests/faults/test_poison_values.py",),
    ),
    Row(
        "readers never crash",
        "mutated inputs, 10,000 for each reader in full",
        ("tests/faults/test_mutated_inputs.py",),
    ),
    Row(
        "any order of commands keeps the promises",
        "state machine over the run's life",
        ("tests/faults/test_life_of_a_run.py",),
    ),
    Row(
        "bad input never gets 5xx",
        "schemathesis, 100 examples per operation, both databases",
        ("tests/server/test_schemathesis.py",),
    ),
    Row(
        "the dashboard stays responsive",
        "20 updates a second, catching up, server killed",
        (
            "tests/browser/test_dashboard.py::test_memory_does_not_grow_at_twenty_updates_a_second",
            "tests/browser/test_dashboard.py::test_page_reconnects_after_the_server_was_killed",
        ),
    ),
    Row(
        "many readers",
        "500 WebSocket clients, 8 kB, 4 messages a second",
        program=("stream_bench.py", "--clients", "500", "--rate", "4"),
    ),
    Row(
        "hostile clients hurt only themselves",
        "live route p99 100 ms, readers' p99 500 ms, memory +16 MiB under attack",
        program=("hostile_bench.py", "--seconds", "6"),
    ),
    Row(
        "first what-if within 2 s",
        "what-if as soon as the server is ready",
        program=("hostile_bench.py", "--what-if"),
    ),
)
SOAK = Row(
    "long runs stay flat",
    "ten minutes, clients come and go",
    program=("soak_bench.py",),
    lines=r"^(responses|memory|descriptors|log) .*",
)
LARGE_HISTORY = Row(
    "every route answers within 300 ms p95",
    "ten million result rows",
    program=("large_history_bench.py",),
    lines=r"^(worst|rows|slow).*",
)


class Verdict(NamedTuple):
    """The outcome of a row."""

    row: Row
    figure: str
    passed: bool
    seconds: float


def run_tests(rows: list[Row], amounts: str) -> Iterator[Verdict]:
    """Run the tests of all rows at once, on all cores, and yield the verdict of each row."""
    nodes = list(dict.fromkeys(node for row in rows for node in row.tests))
    if not nodes:
        return
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        workers = str(min(os.cpu_count() or 1, 8))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            workers,
            "--dist",
            "worksteal",
        ]
        command += ["-o", "junit_family=xunit1", f"--junit-xml={report}", "--timeout", "1500", *files(nodes)]
        subprocess.call(command, cwd=ROOT, env={**os.environ, "HYBRID_FAULTS": amounts})
        cases = list(ElementTree.parse(report).iter("testcase"))
    for row in rows:
        own = [case for case in cases if any(node_id(case).startswith(node) for node in row.tests)]
        failed = [case for case in own if case.find("failure") is not None or case.find("error") is not None]
        skipped = [case for case in own if case.find("skipped") is not None]
        figures = [
            found.get("value", "")
            for case in own
            for found in case.iter("property")
            if found.get("name") == "figure"
        ]
        count = f"{len(own) - len(failed) - len(skipped)} of {len(own)} tests pass"
        count += f", {len(skipped)} skipped" if skipped else ""
        seconds = sum(float(case.get("time", 0)) for case in own)
        yield Verdict(row, "; ".join([count, *figures]), bool(own) and not failed, seconds)


def files(nodes: list[str]) -> list[str]:
    """Return the nodes without those whose file is given as a whole."""
    whole = {node for node in nodes if "::" not in node}
    return [node for node in nodes if node in whole or node.partition("::")[0] not in whole]


def node_id(case: ElementTree.Element) -> str:
    """Return the node id of a test case in the report."""
    return f"{case.get('file') or case.get('classname', '').replace('.', '/') + '.py'}::{case.get('name')}"


def run_program(row: Row) -> Verdict:
    """Run the benchmark of a row; its figure is the lines that the row names."""
    began = time.monotonic()
    command = [sys.executable, str(ROOT / "benchmarks" / row.program[0]), *row.program[1:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if re.search(row.lines, line)]
    figure = "\n".join(found) if found else done.stderr.strip().rpartition("\n")[2]
    return Verdict(row, figure, done.returncode == 0, time.monotonic() - began)


def table(verdicts: list[Verdict], seconds: float) -> str:
    """Return the table as text."""
    lines = [f"{'verdict':8} {'promise':46} {'fault':64} {'s':>5}"]
    for one in verdicts:
        word = "holds" if one.passed else "FAILS"
        lines.append(f"{word:8} {one.row.promise:46} {one.row.fault:64} {one.seconds:5.0f}")
        lines += [f"{'':8} {line}" for line in one.figure.splitlines()]
    failed = sum(not one.passed for one in verdicts)
    lines.append(f"{len(verdicts) - failed} of {len(verdicts)} promises hold; {seconds / 60:.0f} minutes")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--large-history", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    rows = [*ROWS, *([SOAK] if given.soak else []), *([LARGE_HISTORY] if given.large_history else [])]
    rows = [row for row in rows if re.search(given.only, f"{row.promise} {row.fault}")]
    began = time.monotonic()
    verdicts = list(run_tests([row for row in rows if row.tests], "few" if given.quick else "full"))
    verdicts += [run_program(row) for row in rows if row.program and not given.quick]
    text = table(verdicts, time.monotonic() - began)
    print(text, end="")
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    return 0 if verdicts and all(one.passed for one in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
