"""The published DQN: state, actions, network, reward, replay, target network, exploration, and files."""

from typing import Any

import numpy as np
import pytest

from hybrid_scheduler import Cluster, InvalidInputError, Setting, Task, View, create, workstation
from hybrid_scheduler.core import Outcome, platform_named
from hybrid_scheduler.learning import ModelFileError
from hybrid_scheduler.schedulers import dqn
from hybrid_scheduler.schedulers.dqn import BATCH, HIDDEN, REPLAY, TARGET_EVERY, DuelingNetwork, QLearner
from hybrid_scheduler.workload.scenarios import generate, scenario_named

TASK = Task(1, size=2500, compute_intensity=0.5, memory_required=100)
NEXT = Task(2, size=5000, compute_intensity=1.0, memory_required=500)


def made(spec: str) -> Any:
    return create(spec)


def mixed(tasks, seed=5, load=0.3):
    return generate(scenario_named("mixed"), tasks, seed, utilisation=load)


def started(spec="dqn", platform=None):
    scheduler = made(spec)
    scheduler.start(Setting(platform or workstation()))
    return scheduler


def idle(platform):
    return View(0.0, np.zeros(len(platform)), platform)


def test_numbers_are_the_published_ones():
    assert (HIDDEN, REPLAY, BATCH, TARGET_EVERY, dqn.ENERGY_WEIGHT) == (256, 50_000, 64, 50, 0.5)
    network = QLearner(5, seed=0).network
    shapes = {name: layer.shape for name, layer in network.layers.items()}
    assert (shapes["w1"], shapes["w2"], shapes["wv"], shapes["wa"]) == ((3, 256), (256, 256), (256, 1), (256, 5))


@pytest.mark.parametrize(("name", "actions"), [("workstation", 5), ("laptop", 2)])
def test_actions_are_the_cpu_and_each_gpu(name, actions):
    platform = platform_named(name)
    scheduler = started(platform=platform)
    assert scheduler.agent_.actions == actions
    decisions = [scheduler.decide(task, idle(platform)) for task in mixed(200)]
    assert {decision.device for decision in decisions} == set(range(actions))
    assert all(decision.fraction == (0.0 if decision.device == 0 else 1.0) for decision in decisions)


def test_state_is_size_intensity_and_memory_and_next_state_that_of_the_next_task():
    scheduler = started()
    first = scheduler.decide(TASK, idle(workstation()))
    scheduler.observe(Outcome(1, first.device, first.fraction, 0.0, np.nan, 0.0, 0.0, 2.0))
    assert scheduler.agent_.stored == 0
    scheduler.decide(NEXT, idle(workstation()))
    agent = scheduler.agent_
    assert agent.stored == 1
    assert agent.states[0] == pytest.approx([0.5, 0.5, 0.2])
    assert agent.next_states[0] == pytest.approx([1.0, 1.0, 1.0])
    assert agent.taken[0] == first.device


@pytest.mark.parametrize(
    ("device", "cpu_time", "gpu_time", "weight", "reward"),
    [
        (0, 2.0, 0.0, 0.5, -(0.5 * 2.0 + 0.5 * 60.0)),
        (1, 0.0, 2.0, 0.5, -(0.5 * 2.0 + 0.5 * 100.0)),
        (1, 0.0, 2.0, 0.0, -2.0),
        (0, 2.0, 0.0, 1.0, -60.0),
    ],
)
def test_reward_is_the_negative_weighted_sum_of_seconds_and_joules(device, cpu_time, gpu_time, weight, reward):
    scheduler = started(f"dqn(energy_weight={weight})")
    scheduler.decide(TASK, idle(workstation()))
    scheduler.decide(NEXT, idle(workstation()))
    scheduler.observe(Outcome(1, device, float(device > 0), 0.0, 5.0, cpu_time, 5.0, gpu_time))
    assert scheduler.agent_.rewards[0] == pytest.approx(reward)


def test_network_is_dueling_and_its_gradient_is_right():
    network = DuelingNetwork(5)
    network.draw_weights(np.random.default_rng(3))
    network.layers = {name: layer.astype(np.float64) for name, layer in network.layers.items()}
    draw = np.random.default_rng(4)
    states, dq = draw.random((6, 3)), draw.normal(size=(6, 5))
    q, h1, h2 = network.forward(states)
    value = h2 @ network.layers["wv"] + network.layers["bv"]
    assert q.mean(axis=1) == pytest.approx(value[:, 0])
    gradient, begin = network.gradient(states, h1, h2, dq), 0
    for layer in network.layers.values():
        weights = layer.reshape(-1)
        for index in draw.integers(len(weights), size=8).tolist():
            before, sums = weights[index], []
            for step in (1e-6, -1e-6):
                weights[index] = before + step
                sums.append((network.forward(states)[0] * dq).sum())
            weights[index] = before
            assert gradient[begin + index] == pytest.approx((sums[0] - sums[1]) / 2e-6, abs=1e-7, rel=1e-5)
        begin += len(weights)
    assert begin == len(gradient) == len(network.flat)


def test_network_learns_the_reward_of_each_action():
    agent = QLearner(2, seed=1)
    draw = np.random.default_rng(2)
    for _ in range(600):
        state, action = draw.random(3).astype(np.float32), int(draw.integers(2))
        agent.remember(state, action, state[0] if action else 1.0 - state[0], state)
    low, high = np.array([[0.1, 0.5, 0.5], [0.9, 0.5, 0.5]], np.float32)
    for _ in range(1500):
        agent.update()
    agent.epsilon = 0.0
    agent.lowest_epsilon = 0.0
    assert (agent.act(low), agent.act(high)) == (0, 1)


def test_target_network_is_copied_every_fifty_updates():
    agent = QLearner(3, seed=0)
    for value in np.linspace(0.0, 1.0, BATCH):
        agent.remember(np.full(3, value, np.float32), 1, -1.0, np.zeros(3, np.float32))
    first = agent.network.flat.copy()
    for _ in range(TARGET_EVERY - 1):
        agent.update()
    assert np.array_equal(agent.target.flat, first)
    assert not np.array_equal(agent.network.flat, first)
    agent.update()
    assert np.array_equal(agent.target.flat, agent.network.flat)


def test_nothing_is_learned_from_less_than_a_batch_and_the_oldest_transition_is_replaced():
    agent = QLearner(2, seed=0)
    zero = np.zeros(3, np.float32)
    for _ in range(BATCH - 1):
        agent.remember(zero, 0, -1.0, zero)
    agent.update()
    assert agent.updates == 0
    agent.stored = REPLAY
    agent.remember(zero, 1, -7.0, zero)
    assert (agent.taken[0], agent.rewards[0], agent.rewards[1]) == (1, -7.0, -1.0)


def test_exploration_falls_from_one_to_its_floor_within_a_thousand_tasks():
    scheduler = started()
    assert scheduler.agent_.epsilon == 1.0
    for task in mixed(1000):
        scheduler.decide(task, idle(workstation()))
    assert scheduler.agent_.epsilon == pytest.approx(0.1)


def test_one_update_follows_each_transition():
    scheduler = made("dqn")
    Cluster().run(mixed(300), scheduler)
    assert scheduler.agent_.stored == 299
    assert scheduler.agent_.updates == 299 - BATCH + 1
    assert scheduler.agent_.take_mean_loss() > 0.0
    assert scheduler.agent_.take_mean_loss() is None


def test_result_depends_on_the_seed_alone():
    runs = [Cluster().run(mixed(300), made("dqn"), seed=seed).outcomes.device for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_saved_agent_continues_with_the_same_weights(tmp_path):
    scheduler = made("dqn")
    Cluster().run(mixed(300), scheduler)
    path = tmp_path / "agent.safetensors"
    scheduler.save_model(path)
    other = started(f"dqn(model={path})")
    assert np.array_equal(other.agent_.network.flat, scheduler.agent_.network.flat)
    assert np.array_equal(other.agent_.target.flat, other.agent_.network.flat)
    assert other.agent_.epsilon == scheduler.agent_.epsilon
    fixed = started(f"dqn(learn=false, model={path})")
    assert not fixed.learns
    state = np.array([[0.5, 0.5, 0.2]], np.float32)
    best = int(fixed.agent_.network.forward(state)[0].argmax())
    assert {fixed.decide(TASK, idle(workstation())).device for _ in range(20)} == {best}


def test_file_of_another_machine_or_with_damage_is_refused(tmp_path):
    path = tmp_path / "agent.safetensors"
    started().save_model(path)
    with pytest.raises(ModelFileError, match="is for 5 devices, this machine has 2"):
        started(f"dqn(model={path})", platform_named("laptop"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelFileError):
        started(f"dqn(model={path})")
    with pytest.raises(ModelFileError, match="does not exist"):
        started(f"dqn(model={tmp_path / 'none'})")
    with pytest.raises(InvalidInputError, match="started before it is saved"):
        made("dqn").save_model(path)


@pytest.mark.parametrize("spec", ["dqn(epsilon=2)", "dqn(energy_weight=-0.5)"])
def test_numbers_out_of_range_are_refused(spec):
    with pytest.raises(InvalidInputError, match=r"\[0, 1\]"):
        made(spec)
