"""Late binding by learned durations: both loops agree, and it is close to a scheduler that knows durations."""

import numpy as np
import pytest

from hybrid_scheduler import (
    Central,
    Cluster,
    InvalidInputError,
    Noise,
    Objective,
    Task,
    UnknownNameError,
    Workload,
    create,
    platform_named,
    workstation,
)
from hybrid_scheduler.compiled.device_prices import window_prices
from hybrid_scheduler.learning.duration.hierarchical_learner import HierarchicalLearner
from hybrid_scheduler.learning.duration.late_binding_learner import LateLearner
from hybrid_scheduler.learning.duration.learner_state import FEATURES
from hybrid_scheduler.schedulers import LateBinding
from hybrid_scheduler.schedulers.hybrid_ml import LateHybridML
from hybrid_scheduler.workload.scenarios import generate, scenario_named
from studies.learning_cases import hard_cases


class LateByEvents(LateLearner):
    """The same rule without its compiled loop."""

    compiled_loop = None


class Inverted(HierarchicalLearner):
    """Takes the CPU for a fast device and the GPUs for slow ones, without any uncertainty."""

    def start(self, setting):
        super().start(setting)
        arrays = self.duration_model_.arrays
        arrays.weights[arrays.device_kind[:2] * FEATURES] += (-3.0, 3.0)
        arrays.prior_weights[:] = arrays.weights  # from which the first outcomes are learned again
        arrays.prior_variance[:] = 1e-12
        arrays.covariance[:] = np.diag(arrays.prior_variance)


def with_kinds(workload, kinds):
    columns = workload.columns()
    return Workload(**{**columns, "kind": [f"k{i % kinds}" for i in range(len(workload))]})


@pytest.mark.parametrize(
    ("scenario", "platform", "sigma", "kinds"),
    [
        ("mixed", workstation(), 0.0, 1),
        ("bursty", platform_named("mixed-gpus"), 0.2, 3),
        ("oom", workstation(2), 0.0, 1),
    ],
)
def test_compiled_loop_equals_the_event_loop(scenario, platform, sigma, kinds):
    workload = generate(scenario_named(scenario), 300, seed=7, platform=platform, utilisation=0.9)
    workload = with_kinds(workload, kinds)
    runs = [
        Cluster(platform, noise=Noise(sigma, 2)).run(workload, kind(HierarchicalLearner())).outcomes
        for kind in (LateLearner, LateByEvents)
    ]
    assert np.array_equal(runs[0].device, runs[1].device)
    assert np.array_equal(runs[0].fraction, runs[1].fraction)
    assert np.array_equal(runs[0].latency, runs[1].latency)


@pytest.mark.parametrize("kind", [LateLearner, LateByEvents])
def test_guard_limits_the_harm_of_inverted_predictions(kind):
    workload, means = generate(scenario_named("mixed"), 1000, seed=2005, utilisation=0.8), {}
    for guard in (True, False):
        learner = Inverted(guard=guard)
        means[guard] = Cluster().run(workload, kind(learner)).outcomes.latency.mean()
        # The model learns the truth from outcomes; until then the fallback rule decides.
        changes = [
            event.kind for event in learner.duration_model_.events if event.kind in ("fallback", "recovered")
        ]
        assert changes == ["fallback", "recovered"] * guard
    assert means[True] < means[False]


def test_guard_does_not_act_where_predictions_are_right():
    for scenario, load in (("mixed", 0.95), ("transfer", 0.85)):
        workload = generate(scenario_named(scenario), 1000, seed=2006, utilisation=load)
        scheduler = LateHybridML()
        Cluster().run(workload, scheduler)
        assert not [event for event in scheduler.duration_model_.events if event.kind == "fallback"]


@pytest.mark.parametrize("model", ["default", "None"])
def test_learner_comes_close_to_late_binding_that_knows_durations(model):
    workload = generate(scenario_named("mixed"), 2000, seed=2003, utilisation=0.9)
    known, learned, early = (
        Cluster().run(workload, create(spec)).outcomes.latency.mean()
        for spec in ("late_binding", f"hybrid_ml(binding=late,model={model})", "price_index")
    )
    assert learned < 1.06 * known
    assert learned < early


@pytest.mark.parametrize(("tasks", "tolerance"), [(150, 0.05), (800, 0.01)])
def test_unequal_accelerators_get_the_prices_of_known_durations(tasks, tolerance):
    # Also early: what was predicted for the first tasks at their arrival must not stay in the prices.
    platform = platform_named("mixed-gpus")
    workload = generate(scenario_named("mixed"), tasks, seed=2007, platform=platform, utilisation=0.9)
    known, learned = LateBinding(), LateHybridML()
    for scheduler in (known, learned):
        Cluster(platform).run(workload, scheduler)

    def prices(queue, devices):
        value, worth, _ = window_prices(queue.prices)
        return worth * value[devices["column"][~platform.is_cpu]]

    expected = prices(known.queue_arrays, known.devices)
    assert np.allclose(expected, prices(learned.queue_arrays, learned.duration_model_.devices), rtol=tolerance)


def test_kinds_with_a_speed_of_their_own_on_every_class_are_learned_from_small_parts():
    case = next(case for case in hard_cases() if case.name == "4 kinds, 1+4 unequal, spread 1.0 at 0.9")
    ratios = []
    for seed in (2000, 2001, 2002):
        cluster, workload = case.make(seed)
        known, learned = (
            cluster.run(workload.rows(0, 500), create(spec)).outcomes
            for spec in ("late_binding", "hybrid_ml(binding=late,model=None)")
        )
        ratios.append(learned.latency.mean() / known.latency.mean())
        assert ((learned.fraction > 0.8) & (learned.fraction < 1.0)).any()
    assert np.mean(ratios) < 2.5


def test_a_batch_is_learned_while_it_waits():
    # All tasks are there at time 0: a scheduler that decides at arrival cannot learn from any of them.
    workload = generate(scenario_named("mixed"), 300, seed=2004, batch=True)
    late, early, known = (
        Cluster().run(workload, create(spec)).outcomes.finish.max()
        for spec in ("hybrid_ml(binding=late,model=None)", "hybrid_ml(model=None)", "late_binding")
    )
    assert late < early
    assert late < 1.1 * known


def test_before_the_first_outcome_every_idle_device_gets_one_task():
    workload = Workload.from_tasks([Task(i, 2500, 0.5, 0) for i in range(12)])
    outcomes = Cluster().run(workload, create("hybrid_ml(binding=late,model=None)")).outcomes
    first = outcomes.start == 0.0
    assert sorted(outcomes.device[first].tolist()) == [0, 1, 2, 3, 4]


def test_learner_runs_graphs_objectives_and_indivisible_tasks():
    scheduler = create("hybrid_ml(binding=late)")
    workload = generate(scenario_named("mixed"), 200, seed=3, utilisation=0.7)
    thrifty = Cluster().run(workload, scheduler, objective=Objective(0.2, 0.8))
    quick = Cluster().run(workload, scheduler)
    assert thrifty.energy_and_cost.energy.sum() < quick.energy_and_cost.energy.sum()
    whole = Workload.from_tasks([Task(i, 2500, 0.5, 0, 0.01 * i, divisible=False) for i in range(50)])
    assert set(Cluster().run(whole, scheduler).outcomes.fraction) <= {0.0, 1.0}
    chain = Workload.from_tasks([Task(i, 2500, 0.5, 0, dependencies=(i - 1,) if i else ()) for i in range(5)])
    outcomes = Cluster().run(chain, scheduler).outcomes
    assert (outcomes.start[1:] >= outcomes.finish[:-1] - 1e-12).all()


def test_learner_is_a_central_scheduler_with_versions_and_events():
    scheduler = create("hybrid_ml(binding=late,boost=0.5)")
    assert isinstance(scheduler, LateHybridML)
    assert isinstance(scheduler, Central)
    assert scheduler.learns
    workload = generate(scenario_named("mixed"), 500, seed=4, utilisation=0.7)
    Cluster().run(workload, scheduler)
    assert scheduler.state == "learned"
    assert len(scheduler.versions) > 3
    assert {event.kind for event in scheduler.duration_model_.events} >= {"retrained"}


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("hybrid_ml(binding=soon)", UnknownNameError),
        ("hybrid_ml(binding=late,boost=-1)", InvalidInputError),
        ("hybrid_ml(binding=late,deferred=2)", InvalidInputError),
    ],
)
def test_wrong_options_are_refused(spec, error):
    with pytest.raises(error):
        create(spec)
