"""Digests of what schedulers decide, of a live run and of printed results, in tests/golden/outcomes.json.

python scripts/make_golden.py                  computes all of it anew
python scripts/make_golden.py hybrid_ml oracle computes these schedulers anew, keeps the rest

A digest changes only in a commit that changes nothing else and says why.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bootstrap import ROOT, print_help_if_asked

if TYPE_CHECKING:
    from hybrid_scheduler import Machine, Workload

TARGET = ROOT / "tests" / "golden" / "outcomes.json"

SCENARIOS = ("mixed", "default", "transfer", "pareto", "bursty", "oom")
#: Each way to run has its own machine, so that equal and unequal GPUs, few and many are all there.
MODES = ("plain", "noise", "graph", "indivisible")
SEEDS = (1, 2)
TASKS = 100
#: Offered load: queues form, but the good schedulers keep up.
LOAD = 0.8
#: Digits of starts and ends: libraries of other processors differ in the last bits of a logarithm.
DIGITS = 6

#: Specifications with parameters that choose other code, beside every registered name.
VARIANTS = (
    "round_robin(variant=gpu-cpu)",
    "round_robin(variant=half)",
    "oracle(grid=11)",
    "late_binding(deferred=0)",
    "hybrid_ml(model=None)",
    "hybrid_ml(binding=late)",
    "hybrid_ml(prices=False, guard=False)",
    "hybrid_ml(measured=True)",
    "rl_agent(model=None)",
    "rl_agent(known=True)",
    "rl_agent(binding=early)",
    "rl_agent(energy_weight=1.0)",
    "split_search(iterations=300)",
    "frozen_forest(tasks=30)",
)
#: Left out: its variant with fewer iterations takes the same path in a thirtieth of the time.
SLOW = ("split_search",)
LIVE_SCHEDULERS = (
    "round_robin", "random", "greedy", "hybrid_ml", "rl_agent", "oracle", "earliest_finish", "price_index",
    "late_binding", "hybrid_ml(binding=late)",
)  # fmt: skip


def specifications() -> list[str]:
    from hybrid_scheduler.schedulers import schedulers

    return [*(name for name in schedulers() if name not in SLOW), *VARIANTS]


def cases(mode: str) -> Iterator[tuple[str, Workload, Machine, int]]:
    """Yield label, workload, machine and seed of each case of one way to run."""
    from hybrid_scheduler import Machine, generate, scenario_named, workstation
    from hybrid_scheduler.cluster import Noise
    from hybrid_scheduler.core import platform_named

    platforms = {"plain": workstation(4), "noise": platform_named("mixed-gpus"), "graph": workstation(2)}
    for scenario in SCENARIOS:
        for seed in SEEDS:
            platform = platforms.get(mode) or platform_named("laptop")
            machine = Machine(platform, noise=Noise(0.3 if mode == "noise" else 0.0, seed))
            workload = generate(scenario_named(scenario), TASKS, seed, platform=platform, utilisation=LOAD)
            if mode == "graph":
                workload = with_parents(workload, seed)
            elif mode == "noise":
                workload = changed(workload, kind=[("filter", "sort", "train")[row % 3] for row in range(TASKS)])
            elif mode == "indivisible":
                workload = changed(workload, divisible=workload.task_id % 3 == 0)
            yield f"{scenario} {mode} {seed}", workload, machine, seed


def changed(workload: Workload, **columns: Any) -> Workload:
    """Return the workload with other or more columns."""
    from hybrid_scheduler import Workload

    names = ("task_id", "size", "compute_intensity", "memory_required", "arrival_time")
    return Workload(**{name: getattr(workload, name) for name in names} | columns)


def with_parents(workload: Workload, seed: int) -> Workload:
    """Return the workload with up to two parents a task among the ten before it; most hand over data."""
    import numpy as np

    random = np.random.Generator(np.random.PCG64(seed))
    parents = [
        sorted({row - 1 - int(random.integers(min(row, 10))) for _ in range(2)}) if row % 3 else []
        for row in range(len(workload))
    ]
    ids = workload.task_id.tolist()
    return changed(
        workload,
        dependencies=[[ids[parent] for parent in own] for own in parents],
        dependency_data=[[parent % 4 * 50.0 for parent in own] for own in parents],
    )


def outcome_digest(spec: str, workload: Workload, machine: Machine, seed: int) -> str:
    """Return the digest of device, fraction, start and end of every task, or the error of a refused run."""
    import numpy as np

    from hybrid_scheduler import InvalidInputError, create

    try:
        outcomes = machine.run(workload, create(spec), seed=seed).outcomes
    except InvalidInputError as error:
        return f"refused: {error.field}"
    digest = hashlib.sha256(outcomes.device.astype("<i8").tobytes())
    for column in (outcomes.fraction, outcomes.start, outcomes.finish):
        # Adding zero turns -0.0 into 0.0.
        digest.update((np.round(column, DIGITS) + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()[:16]


def digests_of(spec: str) -> dict[str, str]:
    """Return the digests of one scheduler by case."""
    return {
        label: outcome_digest(spec, workload, machine, seed)
        for mode in MODES
        for label, workload, machine, seed in cases(mode)
    }


def rounded(value: Any) -> Any:
    """Return a JSON value with numbers of `DIGITS` significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list | tuple) else value


def json_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(rounded(value), sort_keys=True).encode()).hexdigest()[:16]


def simulate_digest() -> str:
    """Return the digest of what `simulate --json` prints."""
    from typer.testing import CliRunner

    from hybrid_scheduler.cli.app import app

    names = "round_robin,random,greedy,hybrid_ml,rl_agent,oracle"
    words = ["simulate", "--tasks", "100", "--seed", "3", "--utilisation", "0.7", "--schedulers", names, "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return json_digest(json.loads(result.stdout))


def fields_of(value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all fields of a JSON value; names of schedulers and devices are not fields."""
    if isinstance(value, dict):
        for key, part in value.items():
            name = "*" if key in LIVE_SCHEDULERS or key.startswith(("gpu_", "cpu")) else key
            yield f"{path}.{name}"
            yield from fields_of(part, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for part in value:
            yield from fields_of(part, f"{path}[]")


def live_run() -> dict[str, Any]:
    """Return the digest of the results of a live run, and the fields of every message of its stream."""
    import numpy as np

    from hybrid_scheduler.learning.duration.retraining import InlineTrainingWorker
    from hybrid_scheduler.live import ContinuousSimulation, LiveConfig
    from hybrid_scheduler.physics import Slowdown
    from hybrid_scheduler.testing import FakeClock, MemoryJournal

    journal, clock = MemoryJournal(), FakeClock()
    config = LiveConfig(schedulers=LIVE_SCHEDULERS, slowdown=Slowdown("gpu_1", 3.0, 10.0, 20.0))
    engine = ContinuousSimulation(
        config, journal, clock=clock, trainer=InlineTrainingWorker(), entropy=lambda count: bytes(count)
    )
    try:
        engine.open()
        engine.start()
        for _ in range(30):
            clock.advance(1.0)
            engine.status()
        engine.stop()
    finally:
        engine.close()
    digest = hashlib.sha256()
    for name in sorted(LIVE_SCHEDULERS):
        # By task, because where one batch ends and the next begins is no result.
        every: list[Any] = [group for batch in journal.batches for group in (batch, *batch.started)]
        groups = [group for group in every if name in group.results]
        order = np.argsort(np.concatenate([group.tasks.task_id for group in groups]))
        for column in ("fraction", "start", "finish", "energy"):
            values = np.concatenate([getattr(group.results[name], column) for group in groups])[order]
            digest.update((np.round(values, DIGITS) + 0.0).astype("<f8").tobytes())
    messages: dict[str, set[str]] = {}
    for event in journal.events:
        messages.setdefault(event.type, set()).update(fields_of(event.body))
    return {
        "events": json_digest([event.type for event in journal.events]),
        "results": digest.hexdigest()[:16],
        "messages": {name: sorted(paths) for name, paths in sorted(messages.items())},
    }


def everything(only: list[str]) -> dict[str, Any]:
    """Return the content of the file; with names of schedulers, of these anew and of the rest as it is."""
    known = json.loads(TARGET.read_text(encoding="utf-8")) if only else {"schedulers": {}}
    wanted = [spec for spec in specifications() if not only or spec.partition("(")[0] in only]
    present = {*specifications()} - {*wanted}
    kept = {spec: digests for spec, digests in known["schedulers"].items() if spec in present}
    digests = kept | {spec: digests_of(spec) for spec in wanted}
    return {
        "schedulers": {spec: digests[spec] for spec in sorted(digests)},
        "simulate --json": simulate_digest(),
        "live run": live_run(),
    }


def main(arguments: list[str]) -> int:
    text = json.dumps(everything(arguments), indent=1, ensure_ascii=False) + "\n"
    TARGET.write_text(text, encoding="utf-8")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    print_help_if_asked(__doc__)
    sys.exit(main(sys.argv[1:]))
