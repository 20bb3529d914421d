"""Training environment: the same numbers as the cluster, seed by seed."""

import numpy as np
import pytest

from hybrid_scheduler import (
    AnalyticPhysics,
    Cluster,
    Decision,
    InvalidInputError,
    Online,
    platform_named,
)
from hybrid_scheduler.core import Objective, workstation
from hybrid_scheduler.learning.decision_options import ACTIONS
from hybrid_scheduler.learning.queue_env import QueueEnv
from hybrid_scheduler.workload.scenarios import generate, scenario_named

ONE_STREAM = {"scenarios": ["mixed"], "loads": [0.8], "workload_seeds": range(7, 8)}


class Replayed(Online):
    """Carries out decisions made elsewhere."""

    def __init__(self, decisions):
        self.decisions = decisions

    def start(self, setting):
        self.left = iter(self.decisions)

    def decide(self, task, view):
        return next(self.left)


@pytest.mark.parametrize("platform", ["workstation", "laptop", "mixed-gpus", "accelerators"])
def test_episode_equals_a_run_of_the_cluster(platform):
    machine, tasks = platform_named(platform), 60
    env = QueueEnv(1, platform=machine, episode_tasks=tasks + 1, gamma=0.0, **ONE_STREAM)
    draw, decisions, latency = np.random.default_rng(0), [], []
    for _ in range(tasks):
        action = draw.choice(np.flatnonzero(np.isfinite(env.cost[0])))
        decisions.append(Decision(int(env.options.device[0, action]), float(env.options.fraction[0, action])))
        unit = env.options.typical()[0]  # costs are in typical task times
        reward, over = env.step(np.array([action]))
        latency.append(-reward[0] * unit)
    assert over.all()
    workload = generate(
        scenario_named("mixed"), tasks + 1, 7, platform=machine, physics=AnalyticPhysics(), utilisation=0.8
    ).rows(0, tasks)
    ours = Cluster(machine).run(workload, Replayed(decisions)).outcomes
    np.testing.assert_allclose(latency, ours.latency, rtol=1e-9)


def test_same_seed_gives_the_same_episodes():
    def play():
        env, rewards = QueueEnv(4, seed=11, episode_tasks=20), []
        for _ in range(50):
            reward, over = env.step(env.cost.argmin(axis=1))
            env.restart(over)
            rewards.append(reward)
        return np.array(rewards)

    np.testing.assert_array_equal(play(), play())


def test_balancing_option_equals_earliest_finish():
    env = QueueEnv(16, seed=5, episode_tasks=300, loads=[0.9])
    for _ in range(200):
        env.step(env.cost.argmin(axis=1))
        assert (env.cost[:, 2] <= env.cost[:, [0, 1, 3]].min(axis=1) + 1e-12).all()


def test_options_that_do_not_fit_are_masked():
    env = QueueEnv(4, seed=0, scenarios=["oom"], episode_tasks=50)
    seen = set()
    for _ in range(40):
        too_big = env.memory[np.arange(4), env.position] > 8000
        assert (env.options.fraction[too_big] < 1.0).all()
        assert np.isfinite(env.cost[:, 0]).all()
        seen.update(too_big.tolist())
        env.step(np.zeros(4, np.int64))
    assert seen == {True, False}
    cap = np.minimum(8000 / env.memory[np.arange(4), env.position], 1.0)
    assert (env.options.fraction <= cap[:, None] + 1e-12).all()


def test_platform_without_accelerator_offers_the_cpu_only():
    env = QueueEnv(2, platform=workstation(0), episode_tasks=20)
    assert np.isfinite(env.cost).sum(axis=1).tolist() == [1, 1]
    env.step(np.zeros(2, np.int64))


def test_energy_objective_prefers_the_device_with_fewer_joules():
    env = QueueEnv(64, seed=2, objective=Objective(0.0, 1.0), loads=[0.5], episode_tasks=100)
    for _ in range(50):
        rows, position = np.arange(64), env.position
        on_cpu, on_gpu = env.times[rows, position, 0, 0], env.times[rows, position, 1, 0]
        best = env.cost.argmin(axis=1)
        chosen = env.options.fraction[rows, best]
        np.testing.assert_array_equal(chosen, np.where(50.0 * on_gpu < 30.0 * on_cpu, 1.0, 0.0))
        env.step(best)


def test_bad_arguments_are_refused():
    with pytest.raises(InvalidInputError, match="num_envs"):
        QueueEnv(0)
    env = QueueEnv(1, platform=workstation(0), episode_tasks=50)
    with pytest.raises(InvalidInputError, match="mask"):
        env.step(np.array([ACTIONS - 1]))
