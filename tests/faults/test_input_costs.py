"""Cost model of every reader of foreign input: growth of processor time and memory with the input's bytes.

Each shape of input is made at one, two and four times a size and read in a process of its own. The time must not
grow faster than n log n, with tolerance for a busy machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fault_scale import FULL

from hybrid_scheduler.core import HybridSchedulerError

#: Bytes of the smallest input; the largest has four times as many.
BYTES = (256 if FULL else 64) * 2**10
#: The same for descriptions of platforms, of which the server takes 20,000 characters.
PLATFORM_BYTES = 4_900
#: Repetitions of each size; the fastest counts.
REPEATS = 3
#: Growth from the smallest to the largest input: n log n gives about 4.5, a square 16.
MAX_GROWTH = 9.0
#: Processor seconds below which growth is noise.
NOISE_S = 0.05
#: Most processor seconds and memory of one input below 1 MB.
SECONDS, MEMORY = 2.0, 64 * 2**20

Build = Callable[[int], bytes]


def repeated(row: str, head: str = "", tail: str = "", joint: str = "\n") -> Build:
    """Return a builder of rows, in which ``%d`` is the number of the row."""

    def build(size: int) -> bytes:
        length = len(row % 100_000 if "%d" in row else row) + len(joint)
        count = max(1, (size - len(head) - len(tail)) // length)
        rows = (row % (100_000 + number) if "%d" in row else row for number in range(count))
        return (head + joint.join(rows) + tail).encode()

    return build


def long(character: str, head: str = "", tail: str = "") -> Build:
    """Return a builder of one long text."""
    return lambda size: (
        head + character * max(1, (size - len(head) - len(tail)) // len(character)) + tail
    ).encode()


OWN = "task_id,size,compute_intensity,memory_required,arrival_time"
PARENTS = f"{OWN},dependencies,dependency_data\n"
SWF = "%d 0 0 10 1 5 -1 1 60 -1 1 1 1 1 1 1 -1 -1"
ALIBABA = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
HELIOS = "job_id,submit_time,duration,gpu_num\n"
GAVEL = "ResNet-18 (batch size 32)\tpython3 main.py\timages\t--steps\t1\t%d\t1\t1\t-1.0\t0"
PHILLY_JOB = '{"jobid": "%d", "submitted_time": "2017-10-09 07:01:51", "attempts": [%s]}'
ATTEMPT = '{"start_time": "2017-10-09 07:02:00", "end_time": "2017-10-09 07:03:40", "detail": [{"gpus": ["g"]}]}'
HISTORY = (
    "task_id,size,compute_intensity,memory_required,arrival_time,optimal_gpu_fraction,optimal_time,"
    "oracle_latency,oracle_energy,oracle_cost\n"
)
POINT = '{"kernel": "k", "size": %d, "bytes_in": 1, "bytes_out": 1, "flops": 1, "cpu_seconds": null}'


def workflow(tasks: str, runs: str, files: str = "") -> str:
    parts = f'"specification": {{"tasks": [{tasks}], "files": [{files}]}}, "execution": {{"tasks": [{runs}]}}'
    return f'{{"workflow": {{{parts}}}}}'


def independent_tasks(size: int) -> bytes:
    count = size // 90
    tasks = ", ".join(f'{{"id": "t{number}", "parents": []}}' for number in range(count))
    runs = ", ".join(f'{{"id": "t{number}", "runtimeInSeconds": 1}}' for number in range(count))
    return workflow(tasks, runs).encode()


def repeated_parents(size: int) -> bytes:
    """One task that names one parent many times, and many files that both share."""
    count = size // 40
    files = ", ".join(f'"f{number}"' for number in range(count))
    parents = ", ".join(['"a"'] * count)
    tasks = (
        f'{{"id": "a", "outputFiles": [{files}]}}, {{"id": "b", "parents": [{parents}], "inputFiles": [{files}]}}'
    )
    runs = '{"id": "a", "runtimeInSeconds": 1}, {"id": "b", "runtimeInSeconds": 1}'
    return workflow(tasks, runs).encode()


def shared_files(size: int) -> bytes:
    """Many tasks that read what one task wrote, one file each."""
    count = size // 150
    files = ", ".join(f'"f{number}"' for number in range(count))
    tasks = ", ".join(
        f'{{"id": "t{number}", "parents": ["a"], "inputFiles": ["f{number}"]}}' for number in range(count)
    )
    runs = ", ".join(f'{{"id": "t{number}", "runtimeInSeconds": 1}}' for number in range(count))
    first = f'{{"id": "a", "outputFiles": [{files}]}}'
    return workflow(f"{first}, {tasks}", f'{{"id": "a", "runtimeInSeconds": 1}}, {runs}').encode()


def named_task(character: str) -> Build:
    """One task with a long name of one character that ends in a letter."""

    def build(size: int) -> bytes:
        name = character * (size // 2) + "x"
        return workflow(f'{{"id": "{name}"}}', f'{{"id": "{name}", "runtimeInSeconds": 1}}').encode()

    return build


def chain(size: int) -> bytes:
    rows = (
        f"{number},10,0.5,1,0,{number - 1 if number else ''},{1 if number else ''}" for number in range(size // 28)
    )
    return (PARENTS + "\n".join(rows)).encode()


def backward_chain(size: int) -> bytes:
    """Every task waits for the next row, and the last one for a task that does not exist."""
    rows = (f"{number},10,0.5,1,0,{number + 1},1" for number in range(size // 28))
    return (PARENTS + "\n".join(rows)).encode()


def fan_in(size: int) -> bytes:
    """Two tasks with as many parents as there are tasks."""
    count = size // 40
    rows = [f"{number},10,0.5,1,0,," for number in range(count)]
    ids = ";".join(map(str, range(count)))
    amounts = ";".join(["1"] * count)
    return (PARENTS + "\n".join([*rows, f"{count},10,0.5,1,0,{ids},{amounts}"])).encode()


def missing_parents(size: int) -> bytes:
    """Tasks that each name many tasks that do not exist."""
    ids = ";".join(str(10**6 + number) for number in range(500))
    row = f"%d,10,0.5,1,0,{ids},{';'.join(['1'] * 500)}"
    return repeated(row, PARENTS)(size)


def header(size: int) -> bytes:
    return (",".join(f"c{number}" for number in range(size // 7)) + "\n1,2,3").encode()


def wide_rows(size: int) -> bytes:
    names = [*OWN.split(","), *(f"c{number}" for number in range(900))]
    row = ",".join(["1", "10", "0.5", "1", "0", *["7"] * 900])
    return ("\n".join([",".join(names), *[row] * (size // len(row))])).encode()


def parquet(columns: int) -> Build:
    """Return a builder of Parquet files with this many columns besides those of a task."""

    def build(size: int) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        count = max(1, size // (12 * (columns + 1)))
        table = {
            "task_id": list(range(count)),
            "size": [1.5 + number for number in range(count)],
            "compute_intensity": [0.5] * count,
            "memory_required": [1.0] * count,
            "arrival_time": [float(number) for number in range(count)],
            "dependencies": [[number - 1] if number else [] for number in range(count)],
            "dependency_data": [[1.0] if number else [] for number in range(count)],
        }
        table |= {f"column {number}": table["size"] for number in range(columns)}
        sink = io.BytesIO()
        pq.write_table(pa.table(table), sink)
        return sink.getvalue()

    return build


def wrong_columns(size: int) -> bytes:
    """A measured run whose columns have texts in place of numbers."""
    columns = ("gpu_fraction", "actual_time", "latency", "start_time", "finish_time", "cpu_time", "gpu_time")
    count = size // (len(columns) * 5)
    results = {"greedy": {name: ["x"] * min(count, 20_000) for name in columns}}
    for number in range(count // 20_000):
        results[f"s{number}"] = results["greedy"]
    return json.dumps({"results": results}, separators=(",", ":")).encode()


def packed(build: Build) -> Build:
    return lambda size: gzip.compress(build(size), mtime=0)


CSV = ".csv"
#: Input: name, ending of the file, reader, builder.
INPUTS: list[tuple[str, str, str, Build]] = [
    ("csv rows", CSV, "own", repeated("%d,10,0.5,1,0", OWN + "\n")),
    ("csv rows, packed", ".csv.gz", "own", packed(repeated("%d,10,0.5,1,0", OWN + "\n"))),
    ("csv equal ids", CSV, "own", repeated("7,10,0.5,1,0", OWN + "\n")),
    ("csv descending arrivals", CSV, "own", repeated("%d,10,0.5,1,0", OWN + "\n1,10,0.5,1,9\n")),
    ("csv bad cells", CSV, "own", repeated("x,y,z,1,0", OWN + "\n")),
    ("csv short rows", CSV, "own", repeated("1", OWN + "\n")),
    ("csv long rows", CSV, "own", repeated("1,2,3,4,5,6,7,8,9", OWN + "\n")),
    ("csv commas", CSV, "own", long(",", OWN + "\n")),
    ("csv newlines", CSV, "own", long("\n", OWN + "\n")),
    ("csv carriage returns", CSV, "own", long("\r", OWN + "\n")),
    ("csv quotes", CSV, "own", long('"', OWN + "\n")),
    ("csv open quotes", CSV, "own", repeated('"%d,10,0.5,1,0', OWN + "\n")),
    ("csv one open quote", CSV, "own", repeated("%d,10,0.5,1,0", OWN + '\n"')),
    ("csv quoted cells", CSV, "own", repeated('"%d","10","0.5","1","0"', OWN + "\n")),
    ("csv apostrophes", CSV, "own", long("'", f"{OWN},kind\n1,10,0.5,1,0,", "x")),
    ("csv digits", CSV, "own", long("9", f"{OWN}\n1,", ",0.5,1,0")),
    ("csv decimals", CSV, "own", long("9", f"{OWN}\n1,1.", ",0.5,1,0")),
    ("csv zero bytes", CSV, "own", long("\0", OWN + "\n")),
    ("csv header", CSV, "own", header),
    ("csv wide rows", CSV, "own", wide_rows),
    ("csv chain", CSV, "own", chain),
    ("csv backward chain", CSV, "own", backward_chain),
    ("csv fan in", CSV, "own", fan_in),
    ("csv missing parents", CSV, "own", missing_parents),
    ("csv kinds", CSV, "own", repeated("1,10,0.5,1,0,kind %d", f"{OWN},kind\n")),
    ("table rows", CSV, "table", repeated("%d,10", "work,when\n")),
    ("table dates", CSV, "table", repeated("1,2023-11-16 18:17:03", "work,when\n")),
    ("table bad cells", CSV, "table", repeated("a,b", "work,when\n")),
    ("table digits", CSV, "table", long("9", "work,when\n1,")),
    ("table quotes", CSV, "table", long('"', "work,when\n")),
    ("table preview", CSV, "preview", long(",", "work,when\n")),
    ("table header", CSV, "preview", header),
    ("swf jobs", ".swf", "swf", repeated(SWF)),
    ("swf partial jobs", ".swf", "swf", repeated(SWF.replace("60 -1 1", "60 -1 2"))),
    ("swf spaces", ".swf", "swf", long(" ")),
    ("swf comments", ".swf", "swf", long(";\n")),
    ("swf digits", ".swf", "swf", long("9")),
    ("alibaba pods", CSV, "alibaba", repeated("pod-%d,6000,12288,1,460,427061,12902960,427061", ALIBABA)),
    ("alibaba empty cells", CSV, "alibaba", repeated(",,,,,,,", ALIBABA)),
    ("azure requests", CSV, "azure", repeated("2023-11-16 18:17:03.9799600,300,100", AZURE)),
    ("azure bad times", CSV, "azure", repeated("2023,300,100", AZURE)),
    ("gavel jobs", ".trace", "gavel", repeated(GAVEL)),
    ("gavel tabs", ".trace", "gavel", long("\t")),
    ("gavel brackets", ".trace", "gavel", long("(batch size ", tail=GAVEL % 1)),
    ("helios jobs", CSV, "philly", repeated("%d,2020-04-01 00:00:10,50,2", HELIOS)),
    ("philly jobs", ".json", "philly", repeated(PHILLY_JOB.replace("%s", ATTEMPT), "[", "]", ",")),
    ("philly attempts", ".json", "philly", repeated(ATTEMPT, "[" + PHILLY_JOB.split("%s")[0] % 1, "]}]", ",")),
    ("philly brackets", ".json", "philly", long("[")),
    ("philly numbers", ".json", "philly", repeated("1", "[", "]", ",")),
    ("workflow tasks", ".json", "wfformat", independent_tasks),
    ("workflow repeated parents", ".json", "wfformat", repeated_parents),
    ("workflow shared files", ".json", "wfformat", shared_files),
    ("workflow name of dashes", ".json", "wfformat", named_task("_")),
    ("workflow name of digits", ".json", "wfformat", named_task("1")),
    ("workflow name of letters", ".json", "wfformat", named_task("ID")),
    ("workflow brackets", ".json", "wfformat", long("[", '{"workflow": ')),
    ("workflow keys", ".json", "wfformat", repeated('"%d": 0', "{", "}", ",")),
    ("parquet rows", ".parquet", "own", parquet(0)),
    ("parquet columns", ".parquet", "own", parquet(100)),
    ("parquet table", ".parquet", "table", parquet(10)),
    ("history rows", CSV, "history", repeated("%d,100,0.5,10,0,0.5,1,2,3,4", HISTORY)),
    ("history quotes", CSV, "history", long('"', HISTORY)),
    ("profile points", ".json", "profile", repeated(POINT, '{"points": [', "]}", ",")),
    ("profile keys", ".json", "profile", repeated('"%d": 0', "{", "}", ",")),
    ("profile brackets", ".json", "profile", long("[")),
    ("profile text", ".json", "profile", long("a", '{"format": "', '"}')),
    ("mapping keys", ".json", "mapping", repeated('"%d": {"column": "c"}', "{", "}", ",")),
    ("mapping brackets", ".json", "mapping", long("[")),
    ("platform devices", ".yaml", "platform", repeated("- {name: gpu%d, memory: 8000}", "devices:\n")),
    ("platform counts", ".yaml", "platform", repeated("- {name: gpu%d, count: 10000}", "devices:\n")),
    ("platform keys", ".yaml", "platform", repeated("key%d: 1")),
    ("platform brackets", ".yaml", "platform", long("[")),
    ("platform closed brackets", ".yaml", "platform", long("[],", "[")),
    ("platform dashes", ".yaml", "platform", long("- ")),
    ("platform questions", ".yaml", "platform", long("? ")),
    ("platform text", ".yaml", "platform", long("a ", "name: ")),
    ("platform quoted", ".yaml", "platform", long("a\n", 'name: "', '"')),
    ("platform escapes", ".yaml", "platform", long("\\n", 'name: "', '"')),
    ("platform anchors", ".yaml", "platform", repeated("- &a%d 1")),
    ("platform stars", ".yaml", "platform", long("*", 'name: "', '"')),
    ("platform tags", ".yaml", "platform", long("!a ")),
    ("platform documents", ".yaml", "platform", long("---\n")),
    ("platform comments", ".yaml", "platform", long("#\n")),
    ("platform colons", ".yaml", "platform", long(": ")),
    ("platform time", ".yaml", "platform", long("1:", "name: ", "1")),
    ("platform number", ".yaml", "platform", long("9", "name: ")),
    ("body wrong columns", ".json", "body", wrong_columns),
    ("body empty results", ".json", "body", repeated('"s%d": {}', '{"results": {', "}}", ",")),
    ("body unknown names", ".json", "body", repeated('"s%d": 0', "{", "}", ",")),
    ("body unknown names below", ".json", "body", repeated('"s%d": 0', '{"tasks": {', "}}", ",")),
    ("body devices", ".json", "body", repeated("{}", '{"platform": {"devices": [', "]}}", ",")),
    ("body brackets", ".json", "body", long("[")),
    ("body lists", ".json", "body", long("[],", "[", "0]")),
    ("body text", ".json", "body", long("a", '{"scenario": "', '"}')),
    ("scheduler parameters", ".txt", "spec", repeated("a%d=1", "oracle(", ")", ",")),
    ("scheduler signs", ".txt", "spec", long("-", "oracle(grid=", "1)")),
    ("scheduler brackets", ".txt", "spec", long("[", "oracle(grid=", ")")),
    ("scheduler digits", ".txt", "spec", long("9", "oracle(grid=", ")")),
]  # fmt: skip


@cache
def local_server() -> tuple[Any, asyncio.AbstractEventLoop]:
    """Return a client of an application in this process, and the loop that both run in."""
    sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "server")]
    from fakes import client_of, fake_context

    from hybrid_scheduler.server.app import create_app

    app = create_app(fake_context(Path(tempfile.mkdtemp())))
    return client_of(app), asyncio.new_event_loop()


def read(kind: str, path: Path) -> None:
    """Read a file as a client's input is read."""
    if kind == "own":
        from hybrid_scheduler.workload import load_with_report

        load_with_report(path, skip_bad=True)
    elif kind in ("table", "preview"):
        from hybrid_scheduler.workload.trace_formats import ValueSource, first_rows, import_table

        if kind == "preview":
            first_rows(path)
        else:
            name = "size" if path.suffix == ".parquet" else "work"
            when = "arrival_time" if path.suffix == ".parquet" else "when"
            import_table(path, {"size": ValueSource(name), "arrival_time": ValueSource(when)}, skip_bad=True)
    elif kind == "history":
        from hybrid_scheduler.storage.history_csv import read_history

        read_history(path)
    elif kind == "profile":
        from hybrid_scheduler.profiling.hardware_profile import load_profile

        load_profile(path)
    elif kind == "mapping":
        from hybrid_scheduler.server.trace_uploads import parse_mapping

        parse_mapping(path.read_text())
    elif kind == "platform":
        from hybrid_scheduler.cluster import Machine
        from hybrid_scheduler.server.new_runs import StartOptions, chosen_machine

        chosen_machine(Machine(), StartOptions(platform_yaml=path.read_text()))
    elif kind == "body":
        server, loop = local_server()
        answer = loop.run_until_complete(
            server.post("/api/runs", content=path.read_bytes(), headers={"content-type": "application/json"})
        )
        assert answer.status_code == 422, answer.text[:200]
    elif kind == "spec":
        from hybrid_scheduler.workload.argument_checks import parse_spec

        parse_spec(path.read_text())
    else:
        from hybrid_scheduler.workload.trace_formats import import_trace

        import_trace(path, format=kind, skip_bad=True)


def peak_memory(reset: bool = False) -> int:
    """Return the most bytes that this process has held since the last reset; 0 where Linux does not tell."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def print_costs(kind: str, size: int) -> None:
    """Print a line for each input of a reader: name, and bytes, seconds and memory at 1, 2 and 4 times a size."""
    with tempfile.TemporaryDirectory() as folder:
        for name, suffix, reader, build in INPUTS:
            if reader != kind:
                continue
            path = Path(folder) / f"input{suffix}"
            rows = []
            for times in (0.01, 1, 2, 4):  # the first loads the libraries
                path.write_bytes(build(int(size * times)))
                fastest = float("inf")
                before = peak_memory(reset=True)
                for _ in range(REPEATS if times >= 1 else 1):
                    began = time.process_time()
                    with contextlib.suppress(HybridSchedulerError):
                        read(kind, path)
                    fastest = min(fastest, time.process_time() - began)
                rows.append((path.stat().st_size, fastest, peak_memory() - before))
                gc.collect()
                gc.freeze()  # collections of what the libraries made would be a share of each cost
            print(json.dumps([name, rows[1:]]), flush=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", list(dict.fromkeys(kind for _, _, kind, _ in INPUTS)))
def test_time_grows_no_faster_than_n_log_n(kind: str, record_property: Callable[[str, object], None]) -> None:
    size = PLATFORM_BYTES if kind == "platform" else BYTES
    command = [sys.executable, str(Path(__file__)), kind, str(size)]
    try:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300 if FULL else 150)
        assert run.returncode == 0, run.stderr[-2000:]
        printed = run.stdout
    except subprocess.TimeoutExpired as error:
        printed = (error.stdout or b"").decode()
    costs = dict(map(json.loads, printed.splitlines()))
    unread = [name for name, _, reader, _ in INPUTS if reader == kind and name not in costs]
    assert not unread, f"{unread[0]}: read without end"
    figures, failures = [], []
    for name, ((_, first, _), _, (length, last, memory)) in costs.items():
        figure = f"{name}: {length:,} bytes, {last:.2f} s, {memory / 2**20:.0f} MiB"
        figures.append(figure)
        grows = last > NOISE_S and last > MAX_GROWTH * first
        if grows or (FULL and (last > SECONDS or memory > MEMORY)):
            failures.append(f"{figure}; a quarter takes {first:.2f} s")
    record_property("figure", max(figures, key=lambda figure: float(figure.split(", ")[-2].split()[0])))
    assert failures == []


if __name__ == "__main__":
    print_costs(sys.argv[1], int(sys.argv[2]))
