"""The agent as a scheduler: contract, what it decides, model files, former options."""

import math

import numpy as np
import pytest

from hybrid_scheduler import Cluster, InvalidInputError, Noise, Setting, UnknownNameError, create, workstation
from hybrid_scheduler.cluster.event_loop import EventLoop
from hybrid_scheduler.compiled.regime import FEATURES, MAX_LOG, MULTIPLIED
from hybrid_scheduler.core import Central, Knowledge, Objective
from hybrid_scheduler.core.platform import platform_named
from hybrid_scheduler.learning.agent.model_file import FORMAT, SHIPPED_MODEL, AgentModel, load_model
from hybrid_scheduler.learning.agent.policy import Policy
from hybrid_scheduler.learning.duration import versions
from hybrid_scheduler.learning.model_files import ModelFileError, save_safetensors
from hybrid_scheduler.schedulers import rl_agent
from hybrid_scheduler.schedulers.hybrid_ml import HybridML
from hybrid_scheduler.schedulers.rl_agent import AGENT, KnownAgent, RLAgent
from hybrid_scheduler.testing import check_scheduler
from hybrid_scheduler.workload.scenarios import generate, scenario_named

COLUMNS = ("device", "fraction", "cpu_start", "accelerator_start")


def mixed(tasks=400, seed=5, load=0.7, platform=None):
    return generate(scenario_named("mixed"), tasks, seed, utilisation=load, platform=platform)


def random_policy(seed=1):
    policy = Policy.zeros()
    policy.linear[:] = 0.3 * np.random.default_rng(seed).standard_normal(policy.linear.shape)
    return policy


def assert_same(a, b):
    for name in COLUMNS:
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), name


class AgentByEvents(RLAgent):
    """The same agent without its compiled loop."""

    compiled_loop = None


class KnownByEvents(KnownAgent):
    """The same without its compiled loop."""

    compiled_loop = None  # type: ignore[assignment]


def test_agent_passes_the_contract():
    check_scheduler(RLAgent)
    check_scheduler(lambda: KnownAgent(random_policy().numbers))


def test_agent_is_registered_as_published():
    from hybrid_scheduler.schedulers import schedulers

    info = schedulers()["rl_agent"]
    assert (info.label, info.look.dark, info.look.light, info.look.glyph, info.published, info.protocol) == (
        "RL agent", "#C85FFD", "#7E19E8", "◆", True, "central",
    )  # fmt: skip


# ---------------------------------------------------------------- the policy acts on the rule


@pytest.mark.parametrize("model", ["none", "zeros"])
def test_policy_of_zeros_is_the_rule(model, tmp_path):
    workload = mixed(500, load=0.9)
    AgentModel(Policy.zeros()).save_model(tmp_path / "zeros.safetensors")
    known = KnownAgent(None if model == "none" else Policy.zeros().numbers)
    assert_same(Cluster().run(workload, known).outcomes, Cluster().run(workload, create("late_binding")).outcomes)
    learned = RLAgent(model=None if model == "none" else tmp_path / "zeros.safetensors")
    rule = create("hybrid_ml(binding=late,model=None)" if model == "none" else "hybrid_ml(binding=late)")
    assert_same(Cluster().run(workload, learned).outcomes, Cluster().run(workload, rule).outcomes)
    assert learned.decision_counts()[AGENT] == 0
    assert learned.multipliers() == []


@pytest.mark.parametrize("platform", ["workstation", "mixed-gpus"])
def test_compiled_loop_equals_the_event_loop(platform):
    machine = platform_named(platform)
    workload = mixed(300, load=0.9, platform=machine)
    for kinds in ((RLAgent, AgentByEvents), (KnownAgent, KnownByEvents)):
        agents = [kind() if kinds[0] is RLAgent else kind(random_policy().numbers) for kind in kinds]
        cluster = Cluster(machine, noise=Noise(0.1, 2))
        one, other = (cluster.run(workload, agent).outcomes for agent in agents)
        assert_same(one, other)
        assert np.array_equal(agents[0].queue_arrays.regime, agents[1].queue_arrays.regime)


def test_agent_decides_nearly_all_tasks():
    workload = mixed(600, load=0.9)
    agent = RLAgent()
    result = Cluster().run(workload, agent)
    assert sum(result.decision_counts.values()) == len(workload)
    assert result.decision_counts[AGENT] > 0.9 * len(workload)
    assert agent.explanation().policy == AGENT
    rule = Cluster().run(workload, create("hybrid_ml(binding=late)")).outcomes
    assert (result.outcomes.fraction != rule.fraction).any()


def test_multipliers_are_bounded_whatever_the_policy_says():
    policy = Policy.zeros()
    policy.linear[:] = 50.0
    agent = KnownAgent(policy.numbers)
    Cluster().run(mixed(200, load=0.9), agent)
    logs = agent.queue_arrays.regime[-MULTIPLIED:]
    assert (logs <= MAX_LOG).all()
    assert (logs > 0.5).all()


def test_features_describe_stream_and_machine():
    agent = RLAgent()
    Cluster(workstation(6)).run(mixed(2000, load=0.6, platform=workstation(6)), agent)
    found = agent.features()
    assert tuple(found) == FEATURES
    assert found["load"] == pytest.approx(0.6, abs=0.12)
    assert found["accelerators"] == pytest.approx(math.log(6))
    assert found["spread_of_devices"] == pytest.approx(0.0, abs=1e-6)
    assert found["skew_of_work"] > 0.0
    bursts = RLAgent()
    Cluster().run(generate(scenario_named("bursty"), 1000, 3, utilisation=0.6), bursts)
    assert bursts.features()["burstiness"] > found["burstiness"] + 0.3


def test_features_come_from_the_past_alone():
    """The first tasks run the same whatever follows them."""
    calm = mixed(300, load=0.5)
    rush = mixed(600, load=0.5)
    one, other = (Cluster().run(tasks, RLAgent()).outcomes for tasks in (calm, rush))
    early = one.finish[:200] < calm.arrival_time[-1]
    assert np.array_equal(one.start[:200][early], other.start[:200][early])


def test_agent_is_no_worse_than_the_rule_it_adapts():
    ratios = []
    for seed in range(2000, 2006):
        workload = mixed(2000, seed, load=0.9)
        agent, rule = (
            Cluster().run(workload, create(spec)).outcomes.latency.mean()
            for spec in ("rl_agent", "hybrid_ml(binding=late)")
        )
        ratios.append(agent / rule)
    assert np.mean(ratios) < 1.0


def test_objectives_other_than_latency_leave_the_rule_as_it_is():
    workload = mixed(300)
    goal = Objective(0.5, 0.5)
    agent = RLAgent()
    ours = Cluster().run(workload, agent, objective=goal).outcomes
    assert_same(ours, Cluster().run(workload, create("hybrid_ml(binding=late)"), objective=goal).outcomes)
    assert agent.features() == {}
    weighted = Cluster().run(workload, RLAgent(energy_weight=0.5)).outcomes
    assert_same(ours, weighted)


def test_published_energy_weight_is_a_half():
    assert RLAgent(energy_weight="published").energy_weight == 0.5


def test_machine_without_accelerators_and_batches_run():
    alone = Cluster(workstation(0)).run(mixed(50, platform=workstation(0)), RLAgent())
    assert (alone.outcomes.fraction == 0.0).all()
    batch = generate(scenario_named("mixed"), 200, 5, batch=True)
    ours = Cluster().run(batch, RLAgent()).outcomes
    assert ours.finish.max() < 1.2 * Cluster().run(batch, create("late_binding")).outcomes.finish.max()


# ---------------------------------------------------------------- other forms


def test_agent_that_knows_durations():
    agent = create("rl_agent(known=True)")
    assert isinstance(agent, KnownAgent)
    assert agent.knows is Knowledge.TOLD
    assert np.array_equal(agent.policy, load_model(SHIPPED_MODEL).policy.numbers)
    rule = create("rl_agent(known=True, model=None)")
    assert isinstance(rule, KnownAgent)
    assert rule.policy is None


def test_early_binding_is_hybrid_ml():
    early = create("rl_agent(binding=early)")
    assert isinstance(early, HybridML)
    workload = mixed(200)
    assert_same(Cluster().run(workload, early).outcomes, Cluster().run(workload, create("hybrid_ml")).outcomes)
    measured = create("rl_agent(binding=early, measured=True)")
    assert isinstance(measured, HybridML)
    assert measured.prices is False
    with pytest.raises(InvalidInputError, match="binding=early"):
        create("rl_agent(binding=early, model=x.safetensors)")


@pytest.mark.parametrize(
    "spec",
    [
        "rl_agent(replay=bandit)",
        "rl_agent(replay=counterfactual, epsilon=0.1)",
        "rl_agent(durations=forest, replay=bandit)",
    ],
)
def test_former_options_have_no_effect_any_more(spec):
    with pytest.warns(DeprecationWarning, match="use rl_agent"):
        assert isinstance(create(spec), Central)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"energy_weight": -0.1}, InvalidInputError),
        ({"energy_weight": "half"}, UnknownNameError),
        ({"binding": "soon"}, UnknownNameError),
        ({"binding": "early"}, InvalidInputError),
        ({"known": True}, InvalidInputError),
    ],
)
def test_bad_parameters_are_refused(options, error):
    with pytest.raises(error):
        RLAgent(**options)


# ---------------------------------------------------------------- files


def test_trained_policy_is_saved_and_loaded(tmp_path):
    agent = RLAgent(model=None)
    with pytest.raises(InvalidInputError, match="saved"):
        agent.save_model(tmp_path / "new.safetensors")
    agent.pretrain(2, seed=3)
    agent.save_model(tmp_path / "agent.safetensors")
    loaded = RLAgent(model=None)
    loaded.load_model(tmp_path / "agent.safetensors")
    workload = mixed()
    first, again = (Cluster().run(workload, one).outcomes for one in (agent, loaded))
    assert_same(first, again)
    assert load_model(tmp_path / "agent.safetensors").notes == {"seed": 3, "cells": 2}
    assert agent.decision_counts()[AGENT] > 0


def saved(tmp_path, tasks=400):
    """Return an agent after a run, and the file of all that it has learned."""
    agent, path = RLAgent(), tmp_path / "agent.safetensors"
    Cluster().run(mixed(tasks), agent)
    agent.save_model(path)
    return agent, path


def test_file_continues_with_durations_and_policy(tmp_path):
    agent, path = saved(tmp_path)
    again = RLAgent(model=path)
    again.start(Setting(workstation()))
    assert again.duration_model_.seen == agent.duration_model_.seen > 0
    assert np.array_equal(again.duration_model_.arrays.weights, agent.duration_model_.arrays.weights)
    assert np.array_equal(again.policy, agent.policy)
    assert again.versions[-1].trigger == "pretrained"


def test_policy_of_another_machine_is_used_without_its_durations(tmp_path):
    agent, path = saved(tmp_path)
    other = RLAgent(model=path)
    other.start(Setting(platform_named("mixed-gpus")))
    assert other.duration_model_.seen == 0
    assert [event.kind for event in other.take_events()] == ["model_refused"]
    assert np.array_equal(other.policy, agent.policy)


def test_without_the_shipped_policy_the_rule_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(rl_agent, "SHIPPED_MODEL", tmp_path / "none.safetensors")
    agent = RLAgent()
    workload = mixed(300)
    ours = Cluster().run(workload, agent).outcomes
    assert_same(ours, Cluster().run(workload, create("hybrid_ml(binding=late)")).outcomes)
    assert agent.take_events()[0].kind == "model_refused"


def _write(path, change=None, texts=None, cut=0):
    """Write a model file with some arrays or texts changed, or cut."""
    arrays = {name: array.copy() for name, array in vars(random_policy()).items()}
    arrays |= change or {}
    save_safetensors(path, arrays, {"format": FORMAT, "version": "1", "notes": "{}", **(texts or {})})
    if cut:
        path.write_bytes(path.read_bytes()[:-cut])


@pytest.mark.parametrize(
    ("change", "texts", "cut", "complaint"),
    [
        (None, None, 8, "damaged"),
        (None, {"format": "other"}, 0, "is not an agent's file"),
        (None, {"format": "hybrid-scheduler rl_agent"}, 0, "Q-network of an earlier version"),
        (None, {"version": "9"}, 0, "has version 9"),
        (None, {"notes": "no"}, 0, "damaged"),
        ({"linear": np.zeros((3, 3))}, None, 0, "weights linear must be float64 of shape"),
        ({"mean": np.full(len(FEATURES), np.nan)}, None, 0, "not finite"),
        ({"deviation": np.zeros(len(FEATURES))}, None, 0, "above 0"),
    ],
)
def test_bad_file_is_refused_and_the_old_policy_stays(change, texts, cut, complaint, tmp_path):
    good = tmp_path / "good.safetensors"
    AgentModel(random_policy()).save_model(good)
    agent = RLAgent()
    agent.load_model(good)
    _write(tmp_path / "bad.safetensors", change, texts, cut)
    with pytest.raises(ModelFileError, match=complaint):
        agent.load_model(tmp_path / "bad.safetensors")
    with pytest.raises(ModelFileError, match=complaint):
        RLAgent(model=tmp_path / "bad.safetensors").start(Setting(workstation()))
    agent.start(Setting(workstation()))
    assert np.array_equal(agent.policy, random_policy().numbers)


def test_foreign_and_missing_files_are_refused(tmp_path):
    (tmp_path / "text.safetensors").write_bytes(b"nothing of ours")
    for name, complaint in (("text.safetensors", "damaged"), ("none.safetensors", "exist")):
        with pytest.raises(ModelFileError, match=complaint):
            RLAgent().load_model(tmp_path / name)


def test_versions_and_events_are_bounded(monkeypatch):
    monkeypatch.setattr(versions, "MAX_KEPT", 5)
    agent = RLAgent()
    Cluster().run(mixed(1000), agent)
    numbers = [version.version for version in agent.versions]
    assert len(numbers) <= 10
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[-1] > 15
    assert 0 < len(agent.take_events()) <= 10


def test_run_of_an_earlier_version_without_a_queue_goes_on():
    cluster = Cluster()
    agent = RLAgent()
    cluster.start_scheduler(agent, mixed(10))
    loop = EventLoop(cluster, agent, None)
    loop.restore({"cluster": cluster.state()})
    assert len(loop.waiting) == 0


def test_continued_run_goes_on_with_regime_and_coefficients():
    from types import SimpleNamespace

    first, second = RLAgent(), RLAgent()
    Cluster().run(mixed(300), first)
    second.start(Setting(workstation()))
    second.restore_queue(first.queue_state(), SimpleNamespace(times=np.empty((0, 2, 2))))
    assert second.features() == first.features()
    assert second.multipliers() == first.multipliers()
    assert np.array_equal(second.queue_arrays.params, first.queue_arrays.params)
    without = RLAgent(model=None)
    without.start(Setting(workstation()))
    rule = without.queue_arrays.params.copy()
    without.restore_queue(first.queue_state(), SimpleNamespace(times=np.empty((0, 2, 2))))
    assert np.array_equal(without.queue_arrays.params, rule)
    before = {name: part for name, part in first.queue_state().items() if name != "regime"}
    second.restore_queue(before, SimpleNamespace(times=np.empty((0, 2, 2))))  # of an earlier version
