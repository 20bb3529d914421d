"""Schedulers of executors: the simulated ones, which learn real kernels from what was executed."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest

import hybrid_scheduler as hs
from hybrid_scheduler.cluster import Cluster, Noise
from hybrid_scheduler.core import Decision, InvalidInputError, Online, Outcome, Setting, Task, View
from hybrid_scheduler.profiling.calibration import calibrate, platform_of
from hybrid_scheduler.profiling.hardware_profile import profile_named
from hybrid_scheduler.profiling.kernels import KERNELS
from hybrid_scheduler.runtime.device_placement import DevicePlacement
from hybrid_scheduler.runtime.executor_scheduler import RegistryPlacement, executor_scheduler, real_spec
from hybrid_scheduler.runtime.kernel_stream import as_workload, make_stream
from hybrid_scheduler.schedulers import create, schedulers
from studies.kernel_learning import choice_ratio, choice_ratios, machine

MACHINE = machine("h200")
LEARNERS = ("hybrid_ml", "rl_agent")
#: Times that were measured with the executor.
EXECUTOR = "docs/results/h200/study/executor_alone.json"


def _run(scheduler: Online, task_id: int, kind: str, size: float, seconds: tuple[float, float]) -> int:
    """Let an idle machine run a task that takes so long on the CPU and on the GPU; return the device."""
    task = Task(task_id, size, 0.6, 1.0, arrival_time=float(task_id), kind=kind, divisible=False)
    decision = scheduler.decide(task, View(task.arrival_time, np.zeros(2), MACHINE))
    scheduler.observe(_outcome(task, decision, seconds))
    return int(decision.fraction > 0.0)


def _outcome(task: Task, decision: Decision, seconds: tuple[float, float]) -> Outcome:
    now, nan = task.arrival_time, math.nan
    if decision.fraction == 0.0:
        return Outcome(task.task_id, 0, 0.0, now, now, seconds[0], nan, 0.0)
    return Outcome(task.task_id, 1, 1.0, now, nan, 0.0, now, seconds[1])


@pytest.fixture(params=LEARNERS)
def learner(request: pytest.FixtureRequest) -> Online:
    made = executor_scheduler(request.param)
    made.start(Setting(MACHINE))
    return made


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("greedy", "greedy"),
        ("hybrid_ml", "hybrid_ml(prices=False, measured=True)"),
        ("hybrid_ml(prices=True)", "hybrid_ml(prices=True, measured=True)"),
        ("rl_agent", "rl_agent(binding='early', measured=True)"),
    ],
)
def test_learners_get_parameters_for_real_hardware(given: str, made: str) -> None:
    assert real_spec(given) == made


def test_offline_scheduler_is_refused() -> None:
    for spec in ("shortest_first", "heft"):
        with pytest.raises(InvalidInputError, match="an online scheduler"):
            executor_scheduler(spec)


def test_kinds_that_prefer_different_devices_are_told_apart(learner: Online) -> None:
    """Both kinds have the same sizes, and differ a hundredfold."""
    seconds = {"sort": (1e-1, 1e-3), "sum": (1e-3, 1e-2)}
    devices = {"sort": 1, "sum": 0}
    chosen = []
    for i in range(60):
        kind = ("sort", "sum")[i % 2]
        chosen.append(_run(learner, i, kind, 256.0 + 16 * (i % 5), seconds[kind]) == devices[kind])
    assert all(chosen[30:])


def test_device_that_was_slow_at_first_gets_the_kind_back(learner: Online) -> None:
    """The first run on the GPU makes plans and is ten times as slow as the CPU; later ones are as quick."""
    first, chosen = True, []
    for i in range(40):
        gpu = 2e-2 if first else 2e-4
        chosen.append(_run(learner, i, "fft", 512.0, (2e-3, gpu)))
        first = first and not chosen[-1]
    assert chosen[-10:] == [1] * 10


def test_device_whose_first_run_was_disturbed_is_found_to_be_the_better_one(learner: Online) -> None:
    """Whatever the kind, the first run on the CPU takes twenty milliseconds; others a third of the GPU's one."""
    kinds, chosen, disturbed = ("sort", "sum", "fft", "scan"), [], False
    for i in range(120):
        cpu = 3e-4 if disturbed else 2e-2
        chosen.append(_run(learner, i, kinds[i % 4], 256.0 * 2 ** (i % 5), (cpu, 1e-3)))
        disturbed = disturbed or chosen[-1] == 0
    assert np.mean(chosen[60:]) <= 0.2


@pytest.mark.parametrize(("spec", "most"), [("hybrid_ml", 1.10), ("rl_agent", 1.25)])
def test_two_hundred_tasks_suffice_on_the_profiled_h200(spec: str, most: float) -> None:
    """In the simulator, with the measured machine's times, noise, and only what was executed to learn from."""
    platform = platform_of(profile_named("h200"))
    physics = calibrate(profile_named("h200"), transfer="pageable").physics
    learning, later = (
        make_stream(list(KERNELS), 200, seed=3, largest=8192, half=half, limits={"sort": 2048}) for half in (0, 1)
    )
    calls = learning + later
    arrivals = [1000.0 * i for i in range(len(calls))]  # each alone on the machine
    workload = as_workload(calls, arrivals, divisible=lambda call: False)
    scheduler = executor_scheduler(spec)
    outcomes = Cluster(platform, physics, noise=Noise(0.1, 1)).run(workload, scheduler, seed=1).outcomes
    seconds = physics.times(workload, platform).sum(axis=2)[200:]
    chosen = np.where(outcomes.fraction[200:] > 0, seconds[:, 1], seconds[:, 0])
    best = seconds.min(axis=1)
    assert chosen.sum() / best.sum() <= most
    assert np.exp(np.log(chosen / best).mean()) <= most
    assert seconds[:, 1].sum() / best.sum() > 1.3  # so that there was something to learn


@pytest.mark.parametrize("spec", LEARNERS)
@pytest.mark.parametrize("seed", [3, 32, 37])  # streams with few large kernels of some kinds to learn from
def test_disturbed_runs_do_not_mislead_learners(spec: str, seed: int) -> None:
    first, later = choice_ratios(executor_scheduler(spec), seed, EXECUTOR)
    assert 1.0 <= later <= 1.15
    assert first <= 5.0  # trials are bold, and bounded


@pytest.mark.parametrize("spec", LEARNERS)
def test_splits_pay_for_their_start(spec: str) -> None:
    """By shares of whole runs alone the median is 1.15: parts pay for their start, and slow each other down."""
    found = [choice_ratio(spec, seed, EXECUTOR, split=True) for seed in range(8)]
    assert np.median(found) <= 1.10
    assert found != [choice_ratio(spec, seed, EXECUTOR) for seed in range(8)]


def test_what_places_calls_has_its_own_name() -> None:
    with hs.HybridExecutor(device_type="cpu", history=False, cores=1) as own:
        assert own.graph.placement.label == "learned_placement"
        assert type(own.graph.placement) is DevicePlacement
    # rl_agent has nothing to adapt when tasks bind at arrival.
    for name, decides in (("greedy", "greedy"), ("hybrid_ml", "hybrid_ml"), ("rl_agent", "hybrid_ml")):
        with hs.HybridExecutor(name, device_type="cpu", history=False, cores=1) as chosen:
            placement = chosen.graph.placement
            assert placement.label == decides
            assert isinstance(placement, RegistryPlacement)
            assert type(placement._scheduler) is type(create(decides))


def test_no_module_of_the_runtime_compares_names_of_schedulers() -> None:
    names = set(schedulers())
    compared = {
        constant.value
        for path in (Path(hs.__file__).parent / "runtime").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Compare)
        for constant in ast.walk(node)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }
    assert compared & names == set()
