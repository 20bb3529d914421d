"""Campaign of injected faults: one row per promise, with the fault, the figure and the verdict.

    ./run_tests.sh --faults                     every fault, at most 25 minutes; writes docs/results/faults.txt
    ./run_tests.sh --faults --minutes 40        with another limit of time
    ./run_tests.sh --faults --share 0.1         a tenth of the amounts
    ./run_tests.sh --faults --soak              and ten minutes of a server under readers
    ./run_tests.sh --faults --large-history     and a history of ten million result rows
    ./run_tests.sh --faults --only poison       rows whose promise or fault matches
    ./run_tests.sh --faults --list              print the rows with the number of their tests
    ./run_tests.sh --faults --quick             the amounts of every run of the tests, without benchmarks
    ./run_tests.sh --faults --output FILE       write the table to this file

Most faults are injected by tests, which every run of the tests contains with smaller amounts; HYBRID_FAULTS=full
makes them complete. The others are benchmarks, which run first. A row holds if all its tests pass, or if its
program ends with status 0. What does not end in time is "not run", which is no success. The soak and the large
history have their own time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "docs" / "results" / "faults.txt"
#: Seconds for one benchmark, and for pytest to end once it is interrupted.
PROGRAM_S, END_S = 300.0, 60.0
#: Environment variable with the file to which the outcomes of tests are appended.
REPORT = "HYBRID_FAULTS_REPORT"
#: Files with the tests that take minutes.
LONGEST = (
    "tests/server/test_schemathesis.py",
    "tests/faults/test_life_of_a_run.py",
    "tests/faults/test_poison_values.py",
    "tests/faults/test_mutated_inputs.py",
)
_PYTHONPATH = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []


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
        "one key stores one task, one run_id one run",
        "failed writes, both databases",
        (_OUTAGES + "one_key_stores_one_task_and_one_id_one_run_while_writes_fail",),
    ),
    Row(
        "one key stores one task, one run_id one run",
        "first request stored between look and command, restart",
        (
            _OUTAGES + "request_that_looked_before_the_first_was_stored_stores_nothing",
            _FAULTS + "measured_run_that_an_earlier_engine_stored_is_not_stored_again",
            _FAULTS + "engine_knows_the_keys_of_the_one_before",
        ),
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
        "no request makes a restart fail",
        "poison behind every decoder, damaged stored runs, both databases",
        ("tests/faults/test_poisoned_runs.py",),
    ),
    Row(
        "readers never crash",
        "mutated inputs, 10,000 for each reader in full",
        ("tests/faults/test_mutated_inputs.py",),
    ),
    Row(
        "reading takes at most n log n time",
        "1, 2 and 4 times as many bytes of 80 kinds of input, 1 MB at most",
        ("tests/faults/test_input_costs.py",),
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
        "many readers: delivery p99 300 ms, REST 500 ms",
        "200 WebSocket clients, 8 kB, 10 messages a second",
        program=("stream_bench.py", "--clients", "200", "--rate", "10", "--limits"),
    ),
    Row(
        "many readers: delivery p99 300 ms, REST 500 ms",
        "500 WebSocket clients, 8 kB, 4 messages a second",
        program=("stream_bench.py", "--clients", "500", "--rate", "4", "--limits"),
    ),
    Row(
        "hostile clients hurt only themselves",
        "live route p99 100 ms, readers' p99 500 ms, memory +16 MiB under attack",
        program=("hostile_bench.py", "--seconds", "6"),
    ),
    Row(
        "state returns after a restart",
        "kill -9 of a server with learned models, both databases: ready within 20 s",
        program=("recovery_bench.py", "--only", "restart"),
    ),
    Row(
        "database unavailable: 503, nothing lost",
        "PostgreSQL frozen: readiness 503 in 3 s, metrics in 2 s",
        program=("recovery_bench.py", "--only", "frozen"),
    ),
    Row(
        "a slow reader hurts only itself",
        "5 clients that never read and 20 that do, 20 messages a second",
        program=("recovery_bench.py", "--only", "readers"),
    ),
    Row(
        "hostile clients hurt only themselves",
        "clients that leave every slow route, full queues, SIGTERM amid all of them",
        program=("attack_bench.py",),
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
    """The outcome of a row: "holds", "FAILS" or "not run"."""

    row: Row
    figure: str
    word: str
    seconds: float


def collect(rows: list[Row], amounts: str) -> list[str]:
    """Return the ids of all tests of these rows."""
    command = [*_pytest(rows, amounts), "--collect-only", "-q", "--no-header"]
    done = subprocess.run(command, cwd=ROOT, env=_environment(amounts), capture_output=True, text=True, check=False)
    found = [line.strip() for line in done.stdout.splitlines() if "::" in line]
    if not found:
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    return found


def run_tests(rows: list[Row], amounts: str, deadline: float) -> Iterator[Verdict]:
    """Run the tests of all rows at once, on all cores, and yield the verdict of each row."""
    if not rows:
        return
    expected = collect(rows, amounts)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.jsonl"
        report.touch()
        workers = str(min(os.cpu_count() or 1, 8))
        # Tests start in order, one at a time, so that no long one is left for the end.
        command = [*_pytest(rows, amounts), "-q", "-n", workers, "--dist", "load", "--maxschedchunk", "1"]
        command += ["--timeout", "1500"]
        plugin = {REPORT: str(report), "PYTHONPATH": os.pathsep.join([str(ROOT / "scripts"), *_PYTHONPATH])}
        _call([*command, "-p", Path(__file__).stem], _environment(amounts) | plugin, deadline)
        cases = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        own: dict[str, list[dict[str, Any]]] = {}
        for case in cases:
            if _is_of(row, case["id"]):
                own.setdefault(case["id"], []).append(case)
        outcomes = {test: {case["outcome"] for case in found} for test, found in own.items()}
        failed = [test for test, found in outcomes.items() if "failed" in found]
        skipped = sum(found == {"skipped"} for found in outcomes.values())
        number = sum(_is_of(row, test) for test in expected)
        passed = len(own) - len(failed) - skipped
        count = f"{passed} of {number} tests pass"
        count += f", {skipped} skipped" if skipped else ""
        count += f", {number - len(own)} not ended in time" if len(own) < number else ""
        figures = [figure for found in own.values() for case in found for figure in case["figures"]]
        names = [f"failed: {test.partition('::')[2]}" for test in failed]
        word = "FAILS" if failed else "holds" if passed and len(own) >= number else "not run"
        seconds = sum(case["seconds"] for found in own.values() for case in found)
        yield Verdict(row, "\n".join([count, *figures, *names]), word, seconds)


def pytest_runtest_logreport(report: Any) -> None:
    """Note the outcome of a test as soon as it is known: this module is a plugin of pytest, too."""
    file = os.environ.get(REPORT)
    if file is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    if report.when == "call" or report.outcome != "passed":
        figures = [value for name, value in report.user_properties if name == "figure"]
        case = {"id": report.nodeid, "outcome": report.outcome, "seconds": report.duration, "figures": figures}
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(case) + "\n")


def _pytest(rows: list[Row], amounts: str) -> list[str]:
    nodes = list(dict.fromkeys(node for row in rows for node in row.tests))
    nodes.sort(key=lambda node: node not in LONGEST)
    # Tests that repeat others, on the other database, are part of the full amounts alone.
    return [sys.executable, "-m", "pytest", *files(nodes), *([] if amounts == "few" else ["--all"])]


def _environment(amounts: str) -> dict[str, str]:
    return {**os.environ, "HYBRID_FAULTS": amounts}


def _call(command: list[str], environment: dict[str, str], deadline: float) -> None:
    """Run pytest until the deadline; interrupted, its tests end their servers."""
    with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
        for end, number in ((deadline, signal.SIGINT), (deadline + END_S, signal.SIGKILL)):
            try:
                process.wait(max(0.0, end - time.monotonic()))
                return
            except subprocess.TimeoutExpired:
                process.send_signal(number)


def _is_of(row: Row, test: str) -> bool:
    return any(test.startswith(node) for node in row.tests)


def files(nodes: list[str]) -> list[str]:
    """Return the nodes without those whose file is given as a whole."""
    whole = {node for node in nodes if "::" not in node}
    return [node for node in nodes if node in whole or node.partition("::")[0] not in whole]


def run_program(row: Row) -> Verdict:
    """Run the benchmark of a row; its figure is the lines that the row names."""
    began = time.monotonic()
    command = [sys.executable, str(ROOT / "benchmarks" / row.program[0]), *row.program[1:]]
    limit = None if row in (SOAK, LARGE_HISTORY) else PROGRAM_S
    pipe = subprocess.PIPE
    # A session of its own: clients that a benchmark started hold its pipes, and must not outlive it.
    with subprocess.Popen(
        command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.terminate()  # and not kill, so that it ends its server
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Verdict(row, f"not ended after {limit:g} s", "not run", time.monotonic() - began)
    found = [line for line in output.splitlines() if re.search(row.lines, line)]
    figure = "\n".join(found) if found else errors.strip().rpartition("\n")[2]
    return Verdict(row, figure, "FAILS" if process.returncode else "holds", time.monotonic() - began)


def table(verdicts: list[Verdict], seconds: float) -> str:
    """Return the table as text."""
    lines = [f"{'verdict':8} {'promise':46} {'fault':72} {'s':>5}"]
    for one in verdicts:
        lines.append(f"{one.word:8} {one.row.promise:46} {one.row.fault:72} {one.seconds:5.0f}")
        lines += [f"{'':8} {line}" for line in one.figure.splitlines()]
    kept = sum(one.word == "holds" for one in verdicts)
    lines.append(f"{kept} of {len(verdicts)} rows hold; {seconds / 60:.0f} minutes")
    return "\n".join(lines) + "\n"


def heading(arguments: list[str]) -> str:
    """Return the command, the day and the machine, as the file of the result has them."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    load = f", load before {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"Campaign of injected faults: {' '.join(['./run_tests.sh --faults', *arguments])}\n"
        f"{time.strftime('%d %B %Y')}, commit {commit.stdout.strip() or 'unknown'}, {os.cpu_count()} cores{load}.\n"
        "s: seconds of the row's tests, which share the cores.\n\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--soak", action="store_true")
    parser.add_argument("--large-history", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    rows = [*ROWS, *([SOAK] if given.soak else []), *([LARGE_HISTORY] if given.large_history else [])]
    rows = [row for row in rows if re.search(given.only, f"{row.promise} {row.fault}")]
    amounts = "few" if given.quick else "full" if given.share == 1.0 else str(given.share)
    tested = [row for row in rows if row.tests]
    if given.list:
        found = collect(tested, amounts) if tested else []
        for row in rows:
            number = f"{sum(_is_of(row, test) for test in found)} tests" if row.tests else " ".join(row.program)
            print(f"{row.promise:46} {row.fault:72} {number}")
        return 0
    head = heading(sys.argv[1:])
    began = time.monotonic()
    measured = [row for row in rows if row.program and not given.quick and row not in (SOAK, LARGE_HISTORY)]
    if measured:
        print("==> compile what servers and what-if requests call", flush=True)
        run_program(Row("", "", program=("hostile_bench.py", "--what-if")))
    verdicts = []
    for row in measured:
        print(f"==> {' '.join(row.program)}", flush=True)
        verdicts.append(run_program(row))
    verdicts = [*run_tests(tested, amounts, began + 60.0 * given.minutes - END_S), *verdicts]
    verdicts += [run_program(row) for row in rows if row in (SOAK, LARGE_HISTORY)]
    text = table(verdicts, time.monotonic() - began)
    print(text, end="")
    whole = not given.only and amounts == "full"
    if output := given.output or (RESULT if whole else None):
        output.write_text(head + text, encoding="utf-8")
        print(f"written to {output}")
    return 0 if verdicts and all(one.word == "holds" for one in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
