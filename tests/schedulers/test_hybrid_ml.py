"""Hybrid ML: contract, models it starts from, objective, and former options."""

import re

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("skops")
from hybrid_scheduler import Cluster, InvalidInputError, Objective, compare, create, workstation
from hybrid_scheduler.learning.model_files import ModelFileError
from hybrid_scheduler.learning.offline_trainer import train_default_duration_model
from hybrid_scheduler.physics import AnalyticPhysics
from hybrid_scheduler.schedulers import split_specs
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


@pytest.mark.parametrize("options", [{}, {"model": None}, {"prices": False}, {"guard": False}, {"learn": False}])
def test_regression_variants_pass_the_contract(options):
    check_scheduler(lambda: HybridML(**options))


def test_contract_with_a_model(model):
    check_scheduler(lambda: HybridML(model=model))
    check_scheduler(lambda: HybridML(model=model, learn=False))


def test_with_a_model_it_matches_schedulers_that_know_durations(model):
    work = workload()
    reference = Cluster().run(work, create("earliest_finish")).outcomes.latency.mean()
    own = Cluster().run(work, HybridML(model=model)).outcomes.latency.mean()
    assert own < 1.05 * reference


def test_without_prices_latency_only_is_earliest_finish():
    work = workload(200, load=0.5)
    reference = Cluster().run(work, create("earliest_finish")).outcomes
    own = Cluster().run(work, HybridML(prices=False)).outcomes
    assert own.latency.mean() < 1.03 * reference.latency.mean()


def test_energy_only_sends_tasks_where_they_cost_fewer_joules():
    work = workload(200, load=0.2)
    outcomes = Cluster().run(work, HybridML(), objective=Objective(latency=0, energy=1)).outcomes
    cpu, gpu = AnalyticPhysics().times(work, workstation())[:, :, 0].T
    clear = np.abs(np.log(50 * gpu / (30 * cpu))) > 0.05
    # The first tasks of a device are trials.
    assert np.mean(outcomes.fraction[clear] == np.where(50 * gpu < 30 * cpu, 1.0, 0.0)[clear]) > 0.95


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


def test_a_bad_model_file_is_an_error_with_the_file_in_it(tmp_path):
    with pytest.raises(ModelFileError, match=r"missing\.skops"):
        Cluster().run(workload(5), HybridML(model=str(tmp_path / "missing.skops")))


def test_bad_options_are_refused():
    for options in ({"binding": "never"}, {"binding": "late"}, {"model": 3}, {"retrain_interval": 0}):
        with pytest.raises(InvalidInputError):
            HybridML(**options)


@pytest.mark.parametrize(
    ("former", "current"),
    [
        ("hybrid_ml(durations=forest)", "random_forest"),
        ("hybrid_ml(target=fraction, retrain_interval=20)", "random_forest(retrain_interval=20)"),
        ("hybrid_ml(durations=forest, feedback=oracle, model=default, drift=adwin)", "random_forest"),
        ("hybrid_ml(durations=hierarchical, feedback=bandit, prices=False)", "hybrid_ml(prices=False)"),
        ("rl_agent(state=task, actions=placement)", "dqn"),
        ("rl_agent(state=queue, durations=hierarchical, replay=bandit)", "rl_agent"),
    ],
)
def test_former_options_choose_the_present_scheduler_with_a_warning(former, current):
    with pytest.warns(DeprecationWarning, match="is deprecated: use " + re.escape(current)):
        assert split_specs(former) == [current]
    with pytest.warns(DeprecationWarning, match="is deprecated"):
        assert type(create(former)) is type(create(current))


@pytest.mark.parametrize(
    ("former", "hint"),
    [
        ("hybrid_ml(feedback=oracle)", "random_forest is the published"),
        ("hybrid_ml(drift=adwin)", "random_forest is the published"),
        ("rl_agent(state=task)", "dqn is the published"),
        ("rl_agent(actions=placement)", "dqn is the published"),
    ],
)
def test_former_options_without_a_present_form_name_the_nearest(former, hint):
    with pytest.raises(InvalidInputError, match="must be left out") as caught:
        create(former)
    assert hint in (caught.value.hint or "")


def test_results_of_former_options_bear_the_name_of_what_ran():
    with pytest.warns(DeprecationWarning, match="use random_forest"):
        found = compare(small_workload(20), ["hybrid_ml(target=fraction)", "greedy"])
    assert list(found.results) == ["random_forest", "greedy"]
