"""Hybrid ML with a forest decides by what it has learned, warms up as greedy, and heeds the objective."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("skops")
from hybrid_scheduler import Cluster, InvalidInputError, Objective, create, workstation
from hybrid_scheduler.learning.model_files import ModelFileError
from hybrid_scheduler.learning.offline_trainer import train_default_duration_model
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers.hybrid_ml import HybridML
from hybrid_scheduler.testing import check_scheduler, small_workload
from hybrid_scheduler.workload.scenarios import generate, scenario_named


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "times.skops"
    train_default_duration_model(path, 0, num_tasks=3000, trees=10)
    return str(path)


def workload(tasks=400, load=0.7, seed=3):
    return generate(scenario_named("mixed"), tasks, seed, utilisation=load)


@pytest.mark.parametrize("options", [{}, {"feedback": "oracle"}, {"target": "fraction"}, {"prices": False}])
def test_forest_variants_pass_the_contract(options):
    check_scheduler(lambda: HybridML(model=None, durations="forest", **options))


@pytest.mark.parametrize("options", [{}, {"model": None}, {"prices": False}, {"guard": False}, {"learn": False}])
def test_regression_variants_pass_the_contract(options):
    check_scheduler(lambda: HybridML(**options))


def test_contract_with_a_model(model):
    check_scheduler(lambda: HybridML(model=model))
    check_scheduler(lambda: HybridML(model=model, learn=False))


@pytest.mark.parametrize("feedback", ["oracle", "bandit"])
def test_with_a_model_it_matches_schedulers_that_know_durations(model, feedback):
    work = workload()
    reference = Cluster().run(work, create("earliest_finish")).outcomes.latency.mean()
    own = Cluster().run(work, HybridML(model=model, feedback=feedback)).outcomes.latency.mean()
    assert own < 1.05 * reference


def test_without_prices_latency_only_is_earliest_finish(model):
    work = workload(200, load=0.5)
    reference = Cluster().run(work, create("earliest_finish")).outcomes
    own = Cluster().run(work, HybridML(model=model, prices=False, learn=False)).outcomes
    np.testing.assert_allclose(own.fraction, reference.fraction, atol=0.05)
    assert own.latency.mean() < 1.01 * reference.latency.mean()


def test_untrained_forest_acts_as_greedy():
    work = workload(300, load=0.1)
    scheduler = HybridML(model=None, durations="forest", feedback="oracle")
    outcomes = Cluster().run(work, scheduler).outcomes
    greedy = Cluster().run(work, create("greedy")).outcomes
    assert np.array_equal(outcomes.fraction[:5], greedy.fraction[:5])
    assert np.array_equal(outcomes.device[:5], greedy.device[:5])
    assert scheduler.state == "learned"
    assert outcomes.latency[100:].mean() < greedy.latency[100:].mean()
    assert scheduler.versions[-1].r2 > 0.99


def test_energy_only_sends_a_task_where_it_costs_fewer_joules(model):
    work = workload(200, load=0.2)
    outcomes = (
        Cluster().run(work, HybridML(model=model, learn=False), objective=Objective(latency=0, energy=1)).outcomes
    )
    cpu, gpu = AnalyticPhysics().times(work, workstation())[:, :, 0].T
    clear = np.abs(np.log(50 * gpu / (30 * cpu))) > 0.05
    assert np.array_equal(outcomes.fraction[clear], np.where(50 * gpu < 30 * cpu, 1.0, 0.0)[clear])


def test_cost_only_sends_everything_to_the_cpu(model):
    outcomes = (
        Cluster()
        .run(workload(100, load=0.1), HybridML(model=model), objective=Objective(latency=0, cost=1))
        .outcomes
    )
    assert (outcomes.fraction == 0).all()


def test_more_weight_on_energy_means_fewer_joules(model):
    work = workload(200, load=0.1)
    joules = [
        Cluster()
        .run(work, HybridML(model=model), objective=Objective(latency=1 - w, energy=w))
        .energy_and_cost.energy.sum()
        for w in (0.0, 0.5, 1.0)
    ]
    assert joules[0] > joules[1] > joules[2]


def test_same_seed_same_decisions_other_objects(model):
    work = workload(150)
    first = Cluster().run(work, HybridML(model=model), seed=5).outcomes
    second = Cluster().run(work, HybridML(model=model), seed=5).outcomes
    assert np.array_equal(first.fraction, second.fraction)
    assert np.array_equal(first.device, second.device)


def test_guard_falls_back_to_greedy_while_learning_is_worse_and_recovers():
    work = workload(1500, load=0.1)
    scheduler = HybridML(model=None, drift="cusum", durations="forest", feedback="oracle")
    cluster = Cluster()

    class Misled(HybridML):
        """Its predictions are upside down for a while."""

        def decide(self, task, view):
            decision = super().decide(task, view)
            if 100 <= task.task_id < 500 and self.duration_model_.ready:
                candidates = self.decided[task.task_id][1]
                candidates[0], candidates[1] = 0.0, 0.0  # everything onto the CPU
                if not self.guard_.active:
                    return type(decision)(0, 0.0)
            return decision

    scheduler.__class__ = Misled
    cluster.run(work, scheduler)
    kinds = [event.kind for event in scheduler.events_ if event.kind in ("fallback", "recovered")]
    assert kinds == ["fallback", "recovered"]
    assert scheduler.state == "learned"


def test_a_bad_model_file_is_an_error_with_the_file_in_it(tmp_path):
    with pytest.raises(ModelFileError, match=r"missing\.skops"):
        Cluster().run(workload(5), HybridML(model=str(tmp_path / "missing.skops")))


def test_bad_options_are_refused():
    for options in ({"target": "speed"}, {"feedback": "none"}, {"model": 3}, {"retrain_interval": 0}):
        with pytest.raises(InvalidInputError):
            HybridML(**options)


def test_labels_are_requested_only_with_oracle_feedback():
    assert HybridML(durations="forest", feedback="oracle").wants_labels
    assert not HybridML(durations="forest").wants_labels
    assert not HybridML(durations="forest", feedback="oracle", learn=False).wants_labels
    assert not HybridML().wants_labels


def test_tasks_that_are_never_observed_are_dropped(monkeypatch):
    """With the memory policy "fail" a task may never finish; its entry must not stay in memory."""
    from hybrid_scheduler.schedulers import hybrid_ml

    monkeypatch.setattr(hybrid_ml, "MAX_PENDING", 5)
    scheduler = hybrid_ml.HybridML(model=None, durations="forest")
    out = Cluster(memory_policy="fail").run(small_workload(80, max_memory=40000.0), scheduler).outcomes
    assert len(out) == 80
    assert len(scheduler.decided) <= 6
