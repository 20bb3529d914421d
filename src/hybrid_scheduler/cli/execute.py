"""`hybrid-scheduler execute`: real kernels on this machine, placed by schedulers and measured."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import InvalidInputError, UnknownNameError
from .command_context import CommandContext, option_names
from .options import check_folder, check_path, listed, parsed, with_options
from .printer import NOTHING, SECONDS, Column, Printer, percent, significant, uninterrupted, unit_for, with_unit

if TYPE_CHECKING:
    from ..config import Settings
    from ..experiments.kernel_benchmark import KernelBenchmark
    from ..profiling.calibration import Calibration
    from ..runtime.kernel_executor import KernelExecutor

_BACKENDS = ("local", "ray")
_SIZES = "64,1024"
_TASKS = 100


@with_options(
    scheduler={"names": ("--scheduler", "--schedulers")},
    former={"--mix": "kernels", "--whole": "indivisible", "--address": "ray_address"},
)
def execute(
    command: CommandContext,
    kernels: str | None = None,
    tasks: int = _TASKS,
    learn: int = 0,
    scheduler: str = "hybrid_ml",
    sizes: str = _SIZES,
    seed: int = 0,
    batch: bool = False,
    indivisible: bool = False,
    device: str = "auto",
    timeout: float | None = None,
    profile: str | None = None,
    other_machine: bool = False,
    compare: bool = False,
    backend: str = "local",
    ray_address: str | None = None,
    out: Path | None = None,
    store: bool = False,
) -> None:
    """Run real kernels and rate the schedulers' choices.

    Every kernel also runs on every device, and the ratio is to the fastest one. Other work on the machine distorts
    the results.

    \b
    Examples:
      hybrid-scheduler execute --kernels matmul,sort --tasks 50
      hybrid-scheduler execute --scheduler hybrid_ml,greedy,gpu_only --learn 200 --out results/real
      hybrid-scheduler execute --scheduler earliest_finish --compare --batch
      hybrid-scheduler execute --scheduler hybrid_ml,greedy --store

    Parameters
    ----------
    kernels : A,B
        Kernels to run, such as matmul,sort; all by default.
    tasks : N
        Number of kernels to run and measure.
    learn : N
        Kernels that learning schedulers run first, at other sizes.
    scheduler : A,B
        Schedulers to run; several are compared.
    sizes : MIN,MAX
        Smallest and largest size; sizes are log-uniform.
    seed : N
        Random seed; equal seeds give equal kernels and sizes.
    batch
        Submit all kernels at once instead of one after the other.
    indivisible
        Never split a kernel between devices.
    device : NAME
        Device to use beside the CPU: auto, cpu, cuda or mps.
    timeout : SECONDS
        Time limit of one kernel.
    profile : FILE
        Profile to calibrate from; a quick one is measured by default.
    other_machine
        Accept a profile of another machine.
    compare
        Also simulate the same tasks on the calibrated machine.
    backend : NAME
        Where kernels run: local, or ray for several machines.
    ray_address : HOST:PORT
        Ray cluster to use; one is started here by default.
    out : DIR
        Write the results to this folder, as JSON and CSV.
    store
        Store the run in the history; the dashboard shows it as measured.
    """
    settings = command.settings()
    from ..experiments.kernel_benchmark import KernelBenchmark
    from ..profiling.kernels import kernels_named
    from ..runtime.contention_profile import ContentionCalibration
    from ..runtime.kernel_stream import make_stream
    from ..schedulers import split_specs

    if backend not in _BACKENDS:
        raise UnknownNameError("--backend", backend, _BACKENDS)
    if learn < 0:
        raise InvalidInputError("--learn", "a whole number >= 0", learn)
    smallest, largest = parsed("--sizes", sizes, "two whole numbers such as 64,1024", _range)
    half = 1 if learn else None
    shape = {"seed": seed, "smallest": smallest, "largest": largest}
    names = [kernel.name for kernel in kernels_named(listed(kernels) if kernels else None)]
    calls = make_stream(names, tasks, half=half, **shape)  # type: ignore[arg-type]
    learning = make_stream(names, learn, half=0, **shape) if learn else []  # type: ignore[arg-type]
    specs = split_specs(scheduler)
    if not specs:
        raise InvalidInputError("--scheduler", "at least one name", scheduler)
    check_folder("--out", out)
    calibration = _calibration(profile, device, other_machine=other_machine)
    calibrated = ContentionCalibration(calibration, calibration) if calibration else None
    executor = _executor(backend, ray_address, device, calibration, split=not indivisible, timeout=timeout)
    began = time.time()
    try:
        benchmark = KernelBenchmark(
            executor.kernels, calls, specs, learning, "batch" if batch else "sequential", calibrated, compare
        )
        with command.printer.progress(_steps(benchmark)) as update:
            benchmark.progress = update
            document = benchmark.run()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
    document |= {"seed": seed, "sizes": [smallest, largest], "kinds": names, "backend": backend}
    with uninterrupted():
        if out is not None:
            _write(out, document, benchmark.rows())
            command.printer.note(f"wrote {out}")
        printer = command.printer
        stored = ""
        try:  # the measurements are printed even if storing them fails
            if store:
                document["run_id"], stored = _store(benchmark, document, settings, began=began)
        finally:
            printer.outcome(document, lambda: _show(printer, document, stored))


# ------------------------------------------------------------------------------------------ options


def _range(text: str) -> tuple[int, int]:
    smallest, largest = (int(part) for part in text.split(","))
    return smallest, largest


def _calibration(profile: str | None, device: str, *, other_machine: bool) -> Calibration | None:
    if profile is None:
        return None
    from ..profiling.calibration import calibrate
    from ..profiling.hardware_profile import profile_named
    from ..profiling.machine_info import describe_machine, find_gpu

    check_path("--profile", Path(profile))
    with option_names(path="--profile"):
        read = profile_named(profile)
    read.check_machine(describe_machine(find_gpu(device)), allow_other=other_machine)
    return calibrate(read)


def _executor(
    backend: str,
    ray_address: str | None,
    device: str,
    calibration: Calibration | None,
    *,
    split: bool,
    timeout: float | None,
) -> KernelExecutor:
    if backend == "ray":
        from ..runtime.ray_executor import RUN_WITHOUT_RAY, RayExecutor

        hints = {RUN_WITHOUT_RAY: "run it on this machine instead: --backend local"}
        with option_names(hints, address="--ray-address"):
            return RayExecutor("cpu_only", address=ray_address, calibration=calibration, timeout=timeout)
    from ..runtime.kernel_executor import KernelExecutor

    with option_names(device_type="--device"):
        return KernelExecutor("cpu_only", device_type=device, calibration=calibration, split=split, timeout=timeout)


def _steps(benchmark: KernelBenchmark) -> int:
    return len(benchmark.calls) * len(benchmark.executor.pools) * benchmark.repeats


def _write(folder: Path, document: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    from ..core.canonical_json import pretty_json
    from ..reports.file_formats import write_table
    from ..workload.argument_checks import file_errors

    with file_errors("--out", "a folder that can be written", folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "execution.json").write_text(pretty_json(document), encoding="utf-8")
        write_table(folder / "tasks.csv", list(rows[0]), rows)


def _store(
    benchmark: KernelBenchmark, document: dict[str, Any], settings: Settings, *, began: float
) -> tuple[str, str]:
    from .measured_upload import measured_run, store

    machine = document["machine"]
    gpu = machine["gpu"]["name"] if machine["gpu"] else None
    config = {name: document[name] for name in ("kinds", "sizes", "backend", "machine")}
    if "compare" in document:
        numbers = ("real_makespan_seconds", "simulated_makespan_seconds", "error")
        config["compare"] = {
            name: {number: row[number] for number in numbers} for name, row in document["compare"].items()
        }
    run = measured_run(
        benchmark,
        machine=gpu or machine["cpu"],
        seed=document["seed"],
        began=began,
        ended=time.time(),
        config=config,
    )
    return store(run, settings)


# ------------------------------------------------------------------------------------------ table


def _show(printer: Printer, document: dict[str, Any], stored: str) -> None:
    machine = document["machine"]
    gpu = machine["gpu"]["name"] if machine["gpu"] else "no GPU"
    facts = [
        [machine["cpu"], gpu, f"devices {', '.join(document['devices'])}"],
        [f"{document['tasks']} kernels, {document['mode']}", f"seed {document['seed']}", "measured"],
    ]
    always = [(f"always {name}", values) for name, values in document["always"].items()]
    rows: list[tuple[str, dict[str, Any]]] = [*document["schedulers"].items(), *always]
    unit = unit_for([values["total_seconds"] for _, values in rows], SECONDS)
    printer.result(
        facts,
        [
            Column("scheduler", [name for name, _ in rows], number=False),
            Column(f"total\n{unit.symbol}", [unit.show(values["total_seconds"]) for _, values in rows]),
            Column("ratio to\nbest", [significant(values.get("ratio")) for _, values in rows], best=_best(rows)),
            Column("of its\nchoices", [significant(values.get("choice_ratio")) for _, values in rows], 2),
            Column("makespan", [_seconds(values.get("makespan_seconds")) for _, values in rows], 3),
            Column("decision", [_seconds(values.get("decision_seconds_per_task")) for _, values in rows], 1),
            Column("learning", [_seconds(values.get("learning_seconds_per_task")) for _, values in rows], 5),
            Column("GPU\nJ/task", [_joules(values) for _, values in rows], 4),
            Column("not\ndone", [_unfinished(values) for _, values in rows], 6),
        ],
    )
    if "compare" in document:
        _show_compared(printer, document["compare"])
        printer.text()
    printer.text(_headline(document), "bold")
    if stored:
        printer.text(stored)


def _show_compared(printer: Printer, compared: dict[str, Any]) -> None:
    rows = list(compared.values())
    printer.table(
        [
            Column("scheduler", list(compared), number=False),
            Column("real\nmakespan", [_seconds(row["real_makespan_seconds"]) for row in rows]),
            Column("simulated", [_seconds(row["simulated_makespan_seconds"]) for row in rows]),
            Column("error", [f"{100 * row['error']:+.1f}%" for row in rows]),
            Column(
                "real runs", ["{:+.0f}..{:+.0f}%".format(*(100 * x for x in row["spread_of_real"])) for row in rows]
            ),
        ]
    )


def _headline(document: dict[str, Any]) -> str:
    name, values = min(document["schedulers"].items(), key=lambda item: item[1]["ratio"] or float("inf"))
    best = with_unit(document["best_seconds"], SECONDS)
    return (
        f"best measured choice for every kernel: {best}; {name} takes {significant(values['ratio'])} times as long"
    )


def _best(rows: list[tuple[str, dict[str, Any]]]) -> frozenset[int]:
    known = [(values["ratio"], i) for i, (_, values) in enumerate(rows) if values.get("ratio") is not None]
    return frozenset({min(known)[1]}) if known else frozenset()


def _seconds(value: float | None) -> str:
    return NOTHING if value is None else with_unit(value, SECONDS)


def _joules(values: dict[str, Any]) -> str:
    return significant(values.get("joules_per_task", {}).get("gpu"))


def _unfinished(values: dict[str, Any]) -> str:
    if "statuses" not in values:
        return NOTHING
    others = sum(count for status, count in values["statuses"].items() if status != "done")
    return percent(others / values["tasks"]) if others else "0"
