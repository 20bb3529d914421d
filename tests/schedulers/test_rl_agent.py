"""The agent as a scheduler: contract, warm-up, model files, objective."""

from pathlib import Path

import numpy as np
import pytest

from hybrid_scheduler import Cluster, InvalidInputError, Setting, UnknownNameError, View, create, workstation
from hybrid_scheduler.core import Objective, Online
from hybrid_scheduler.core.platform import platform_named
from hybrid_scheduler.learning.dqn.decision_options import ACTIONS, FEATURES
from hybrid_scheduler.learning.dqn.model_file import FORMAT, AgentModel, load_model, save_model
from hybrid_scheduler.learning.dqn.q_network import NetworkShape, initial_weights
from hybrid_scheduler.learning.duration import versions
from hybrid_scheduler.learning.duration.learned_placement import LEARNED
from hybrid_scheduler.learning.model_files import ModelFileError, save_safetensors
from hybrid_scheduler.learning.shadow_guard import ShadowGuard
from hybrid_scheduler.schedulers import rl_agent
from hybrid_scheduler.schedulers.rl_agent import POLICIES, RLAgent
from hybrid_scheduler.testing import check_scheduler
from hybrid_scheduler.workload.scenarios import generate, scenario_named

COLUMNS = ("device", "fraction", "cpu_start", "accelerator_start")


def mixed(tasks=400, seed=5, load=0.3):
    return generate(scenario_named("mixed"), tasks, seed, utilisation=load)


def random_model():
    rng = np.random.default_rng(1)
    shape = NetworkShape(FEATURES, ACTIONS)
    weights = initial_weights(shape, rng)
    for part in shape.split(weights)[4:]:
        part[:] = rng.normal(size=part.shape) / 30
    return AgentModel(0.98, weights)


def assert_same(a, b):
    for name in COLUMNS:
        assert np.array_equal(getattr(a, name), getattr(b, name), equal_nan=True), name


@pytest.mark.parametrize("options", [{}, {"replay": "bandit"}], ids=["default", "bandit"])
def test_agent_variants_pass_the_contract(options):
    check_scheduler(lambda: RLAgent(model=None, **options))


def test_agent_is_registered_as_published():
    from hybrid_scheduler.schedulers import schedulers

    info = schedulers()["rl_agent"]
    assert (info.label, info.look.dark, info.look.light, info.look.glyph, info.published) == (
        "RL agent", "#C85FFD", "#7E19E8", "◆", True,
    )  # fmt: skip


def test_without_the_shipped_network_a_rule_decides(tmp_path, monkeypatch):
    monkeypatch.setattr(rl_agent, "SHIPPED_MODEL", tmp_path / "none.safetensors")
    agent = RLAgent()
    workload = mixed(600, load=0.7)
    ours = Cluster().run(workload, agent).outcomes.latency.mean()
    assert ours < 1.05 * Cluster().run(workload, create("earliest_finish")).outcomes.latency.mean()
    assert agent.state == "fallback"
    assert agent.take_events()[0].kind == "model_refused"


def test_save_and_load_give_the_same_decisions(tmp_path):
    agent = RLAgent(model=None)
    agent.pretrain(30, num_envs=8, episode_tasks=100)
    agent.save_model(tmp_path / "agent.safetensors")
    first = Cluster().run(mixed(), agent).outcomes
    loaded = RLAgent(model=None)
    loaded.load_model(tmp_path / "agent.safetensors")
    assert_same(first, Cluster().run(mixed(), loaded).outcomes)
    loaded.save_model(tmp_path / "later.safetensors")  # what it has learned in the run
    assert np.array_equal(load_model(tmp_path / "later.safetensors").weights, loaded.agent_.weights)


def test_a_bad_file_keeps_the_old_model(tmp_path):
    agent = RLAgent(model=None)
    save_model(tmp_path / "good.safetensors", random_model())
    arrays = {"w1": np.zeros(1, np.float32)}
    texts = {"format": FORMAT, "version": "1", "state": "task", "actions": "placement", "gamma": "0.9"}
    save_safetensors(tmp_path / "other.safetensors", arrays, {**texts, "hidden": "256", "notes": "{}"})
    (tmp_path / "bad.safetensors").write_bytes(b"nothing of ours")
    agent.load_model(tmp_path / "good.safetensors")
    loaded = load_model(tmp_path / "good.safetensors").weights
    for name, complaint in (
        ("bad.safetensors", "damaged"),
        ("other.safetensors", "is for state 'task'"),
        ("none.safetensors", "exist"),
    ):
        with pytest.raises(ModelFileError, match=complaint):
            agent.load_model(tmp_path / name)
        agent.save_model(tmp_path / "after.safetensors")
        assert np.array_equal(load_model(tmp_path / "after.safetensors").weights, loaded)
    with pytest.raises(ModelFileError, match="exist"):
        Cluster().run(mixed(), RLAgent(model=tmp_path / "none.safetensors"))
    with pytest.raises(InvalidInputError, match="saved"):
        RLAgent().save_model(tmp_path / "new.safetensors")


def test_a_frozen_network_does_not_change(tmp_path):
    save_model(tmp_path / "agent.safetensors", random_model())
    agent = RLAgent(model=tmp_path / "agent.safetensors", learn=False)
    Cluster().run(mixed(), agent)
    assert agent.agent_.updates == 0
    assert np.array_equal(agent.agent_.weights, random_model().weights)


@pytest.mark.parametrize("how", ["weight", "objective"])
def test_energy_alone_goes_where_joules_are_fewer(how):
    agent = RLAgent(model=None, energy_weight=1.0 if how == "weight" else 0.0)
    goal = Objective(0.0, 1.0) if how == "objective" else None
    workload = mixed(600)
    outcomes = Cluster().run(workload, agent, objective=goal).outcomes
    table = Cluster().physics.times(workload, workstation())
    cpu, gpu = 30.0 * table[300:, 0, 0], 50.0 * table[300:, 1, 0]
    clear = np.abs(np.log(cpu / gpu)) > 0.1  # durations are estimated: leave out the close calls
    assert np.array_equal(outcomes.fraction[300:][clear], np.where(gpu < cpu, 1.0, 0.0)[clear])


def test_latency_alone_is_earliest_finish_before_training():
    workload = mixed(600, load=0.2)
    agent = RLAgent(model=None, learn=False)
    ours = Cluster().run(workload, agent).outcomes.latency[200:]
    best = Cluster().run(workload, create("earliest_finish")).outcomes.latency[200:]
    assert ours.mean() < 1.05 * best.mean()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"replay": "all"}, UnknownNameError),
        ({"epsilon": 1.5}, InvalidInputError),
        ({"energy_weight": -0.1}, InvalidInputError),
        ({"energy_weight": "half"}, UnknownNameError),
    ],
)
def test_bad_parameters_are_refused(options, error):
    with pytest.raises(error):
        RLAgent(**options)


# ---------------------------------------------------------------- objectives


@pytest.mark.parametrize("replay", ["counterfactual", "bandit"])
@pytest.mark.parametrize("objective", [Objective(0.5, 0.5), Objective(0.5, 0.0, 0.5), Objective(0.2, 0.7, 0.1)])
def test_agent_learns_under_every_objective_with_latency(objective, replay):
    agent = RLAgent(replay=replay)
    Cluster().run(mixed(700), agent, objective=objective)
    assert agent.agent_.updates > 0
    assert np.isfinite(agent.agent_.weights).all()


def test_published_energy_weight_is_a_half():
    assert RLAgent(energy_weight="published").energy_weight == 0.5


# ---------------------------------------------------------------- guarded by rules


def test_guarded_agent_starts_from_nothing_without_harm():
    workload = mixed(800, load=0.5)
    agent = RLAgent()
    ours = Cluster().run(workload, agent).outcomes.latency.mean()
    assert ours < 1.05 * Cluster().run(workload, create("earliest_finish")).outcomes.latency.mean()
    assert agent.agent_.updates > 0


def test_guarded_agent_does_not_follow_a_harmful_network(tmp_path):
    model = random_model()
    for part in model.shape.split(model.weights)[6:]:
        part[:] = np.linspace(100.0, -100.0, part.shape[-1])  # prefers the CPU for every task
    save_model(tmp_path / "bad.safetensors", model)
    agent = RLAgent(model=tmp_path / "bad.safetensors", learn=False)
    workload = mixed(800, load=0.7)
    ours = Cluster().run(workload, agent).outcomes.latency.mean()
    assert agent.state == "fallback"
    assert ours < 1.05 * Cluster().run(workload, create("earliest_finish")).outcomes.latency.mean()


@pytest.mark.parametrize("replay", ["counterfactual", "bandit"])
def test_guarded_agent_is_deterministic(replay):
    first, again = (Cluster().run(mixed(), RLAgent(replay=replay), seed=3).outcomes for _ in range(2))
    assert_same(first, again)


def test_batch_is_placed_by_the_shipped_prior():
    batch = generate(scenario_named("mixed"), 200, 5, batch=True)  # no outcome before the last decision
    agent = RLAgent()
    ours = Cluster().run(batch, agent).outcomes.latency.mean()
    assert ours < 1.05 * Cluster().run(batch, create("earliest_finish")).outcomes.latency.mean()


# ---------------------------------------------------------------- files with learned durations


def saved(tmp_path, tasks=400):
    """Return an agent after a run, and the file of all that it has learned."""
    agent, path = RLAgent(), tmp_path / "agent.safetensors"
    Cluster().run(mixed(tasks), agent)
    agent.save_model(path)
    return agent, path


def test_file_continues_with_durations_and_record(tmp_path):
    agent, path = saved(tmp_path)
    again = RLAgent(model=path)
    again.start(Setting(workstation()))
    assert again.duration_model_.seen == agent.duration_model_.seen > 0
    assert again.guard_.active == agent.guard_.active
    for name, array in agent.guard_arrays().items():
        assert np.array_equal(array, again.guard_arrays()[name]), name
    assert np.array_equal(again.duration_model_.arrays.weights, agent.duration_model_.arrays.weights)
    assert again.versions[-1].trigger == "pretrained"


def test_new_run_from_a_file_starts_with_empty_simulated_queues(tmp_path):
    agent, path = saved(tmp_path)
    agent.guard_.free_at[:] += 1e6
    agent.save_model(path)
    again = RLAgent(model=path)
    Cluster().run(mixed(20), again)
    assert again.guard_.free_at.max() < 1e5


def test_network_of_another_machine_is_used_without_its_durations(tmp_path):
    _, path = saved(tmp_path)
    agent = RLAgent(model=path)
    agent.start(Setting(platform_named("mixed-gpus")))
    assert agent.duration_model_.seen == 0
    assert [event.kind for event in agent.take_events()] == ["model_refused"]
    assert np.array_equal(agent.agent_.weights, load_model(path).weights)


@pytest.mark.parametrize("damage", ["nan", "policy", "shape", "missing"])
def test_damaged_record_is_refused(tmp_path, damage):
    _, path = saved(tmp_path, 100)
    model = load_model(path)
    if damage == "nan":
        model.guard["means"][0] = np.nan
    elif damage == "policy":
        model.guard["numbers"][0] = 7
    elif damage == "shape":
        model.guard["free_at"] = model.guard["free_at"][:, :2]
    else:
        del model.guard["task_means"]
    save_model(path, model)
    with pytest.raises(ModelFileError, match=r"guard"):
        RLAgent(model=path).start(Setting(workstation()))


def test_versions_and_events_are_bounded(monkeypatch):
    monkeypatch.setattr(versions, "MAX_KEPT", 5)
    agent = RLAgent()
    Cluster().run(mixed(1000), agent)
    numbers = [version.version for version in agent.versions]
    assert len(numbers) <= 10
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert numbers[-1] > 15
    assert 0 < len(agent.take_events()) <= 10


# ---------------------------------------------------------------- indivisible tasks


@pytest.mark.parametrize(
    "spec",
    [
        "rl_agent", "rl_agent(replay=bandit)", "hybrid_ml", "hybrid_ml(prices=False)",
    ],
)  # fmt: skip
def test_learners_place_indivisible_tasks_whole(spec, monkeypatch):
    whole = mixed(300, load=0.5).indivisible()
    scheduler, shares = create(spec), []
    assert isinstance(scheduler, Online)
    decide = scheduler.decide

    def recorded(task, view):
        decision = decide(task, view)
        shares.append(decision.fraction)
        return decision

    monkeypatch.setattr(scheduler, "decide", recorded)
    latency = Cluster().run(whole, scheduler).outcomes.latency[100:].mean()
    assert set(shares[100:]) <= {0.0, 1.0}
    assert latency < 1.2 * Cluster().run(whole, create("min_completion")).outcomes.latency[100:].mean()


# ---------------------------------------------------------------- explanations


@pytest.mark.parametrize("replay", ["counterfactual", "bandit"])
def test_largest_value_is_the_networks_choice(replay, monkeypatch):
    monkeypatch.setattr(ShadowGuard, "active", property(lambda guard: POLICIES.index("network")))
    agent = RLAgent(replay=replay, epsilon=0.0)
    decide, checked = agent.decide, []

    def recorded(task, view):
        decision = decide(task, view)
        found = agent.explanation()
        if found is not None and found.policy == "network":
            best = max(found.options, key=lambda option: option.value)
            checked.append((best.device, best.fraction) == (decision.device, decision.fraction))
        return decision

    monkeypatch.setattr(agent, "decide", recorded)
    Cluster().run(mixed(200), agent)
    assert len(checked) > 100
    assert np.mean(checked) > 0.95  # equal options may differ in the last digit


def test_records_and_deciding_policy_are_explained():
    agent = RLAgent()
    Cluster().run(mixed(400, load=0.7), agent)
    found = agent.explanation()
    assert dict(found.policy_costs) == dict(zip(rl_agent.POLICIES, agent.guard_.means.tolist(), strict=True))
    assert found.policy in (*rl_agent.POLICIES, "trial")
    assert (found.prediction.times.sum(axis=1) > 0.0).all()


def test_every_decision_is_counted_for_the_policy_that_made_it():
    tasks = mixed(300, load=0.7)
    for spec in ("rl_agent", "hybrid_ml", "hybrid_ml(binding=late)"):
        scheduler = create(spec)
        result = Cluster().run(tasks, scheduler)
        assert sum(result.decision_counts.values()) == len(tasks)
        assert scheduler.explanation().policy in result.decision_counts
    assert Cluster().run(tasks, create("earliest_finish")).decision_counts == {}


def test_guard_scores_the_rule_that_acts(monkeypatch):
    """With queues that equal the simulated ones, the learned rule's decision is the one that was scored."""
    agent = RLAgent(replay="bandit", learn=False)
    agent.start(Setting(workstation()))
    scored, guard = [], agent.guard_
    place = agent.learner_.rule_.place_by_rules

    def recorded(shadow, task, now):
        before = shadow.free_at[LEARNED].copy()
        place(shadow, task, now)
        scored.append((np.flatnonzero(shadow.free_at[LEARNED] != before), before))

    monkeypatch.setattr(agent.learner_.rule_, "place_by_rules", recorded)
    feed = RLAgent(replay="bandit")
    Cluster().run(mixed(200), feed)
    agent.learner_.rule_.restore(feed.learner_.rule_.snapshot(), Path("memory"))
    for task in mixed(300, load=0.9).rows(200, 300):
        view = View(task.arrival_time, guard.free_at[LEARNED].copy(), workstation())
        decision = agent.learner_.decide(task, view)
        agent.learner_.rule_.place_by_rules(guard.shadow, task, task.arrival_time)
        used = {decision.device} if decision.fraction > 0.0 else set()
        used |= {0} if decision.fraction < 1.0 else set()
        assert set(scored[-1][0].tolist()) == used
