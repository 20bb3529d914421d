"""The environment is a standard one: Gymnasium's own checks pass without a warning."""

import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

import hybrid_scheduler.gym  # noqa: E402, F401  registers the environment
from hybrid_scheduler import AnalyticPhysics, Cluster, InvalidInputError, create, workstation  # noqa: E402
from hybrid_scheduler.cluster import isolated_optimum  # noqa: E402
from hybrid_scheduler.workload import generate, scenario_named  # noqa: E402

QUICK = {"episode_tasks": 30}


@pytest.mark.parametrize("options", [{}, {"scenarios": ["oom"]}])
def test_check_env_reports_nothing(options):
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make("HybridScheduler-v0", **QUICK, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


def test_an_episode_is_truncated_after_its_tasks():
    env = gymnasium.make("HybridScheduler-v0", **QUICK)
    observation, info = env.reset(seed=1)
    assert observation in env.observation_space
    for step in range(1, 31):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))
        assert reward < 0
        assert not terminated
        assert truncated == (step == 30)
        assert observation in env.observation_space


def test_step_after_the_end_is_refused():
    env = gymnasium.make("HybridScheduler-v0", **QUICK)
    env.reset(seed=1)
    for _ in range(30):
        env.step(0)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset()
    env.step(0)


@pytest.mark.parametrize("action", [-1, 5])
def test_unknown_action_is_refused(action):
    env = gymnasium.make("HybridScheduler-v0", **QUICK).unwrapped
    env.reset(seed=1)
    with pytest.raises(InvalidInputError, match="from 0 to 4"):
        env.step(action)


def test_the_vectorised_environment_steps_like_single_ones():
    options = {"scenarios": ["mixed"], "loads": [0.9], "workload_seeds": range(1), **QUICK}
    envs = gymnasium.make_vec("HybridScheduler-v0", num_envs=3, **options)
    single = gymnasium.make("HybridScheduler-v0", **options)
    many, _ = envs.reset(seed=4)
    one, _ = single.reset(seed=4)
    np.testing.assert_array_equal(many, np.stack([one] * 3))
    for step in range(35):
        many, rewards, terminated, truncated, info = envs.step(np.array([2, 2, 2]))
        if step == 30:  # the step after the last task resets, and earns nothing
            one, _ = single.reset()
            assert (rewards == 0).all()
        else:
            one, reward, _, over, _ = single.step(2)
            assert (rewards == reward).all()
            assert (truncated == over).all()
        np.testing.assert_array_equal(many, np.stack([one] * 3))
        assert info["action_mask"].shape == (3, 5)
        assert not terminated.any()


# ------------------------------------------------------------------------------------------ order of a queue


@pytest.mark.parametrize("options", [{"loads": [0.95]}, {"scenarios": ["oom"], "candidates": 3}])
def test_check_env_reports_nothing_about_the_queue(options):
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make("HybridScheduler-Queue-v0", episode_tasks=60, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("scenario", ["mixed", "transfer"])
def test_first_candidate_at_every_step_is_late_binding(scenario):
    options = {"scenarios": [scenario], "loads": [0.95], "workload_seeds": range(7, 8), "episode_tasks": 400}
    env = gymnasium.make("HybridScheduler-Queue-v0", **options).unwrapped
    env.reset(seed=1)
    over, total, steps = False, 0.0, 0
    while not over:
        _, reward, _, over, _ = env.step(0)
        total, steps = total + reward, steps + 1
    tasks = generate(scenario_named(scenario), 400, 7, utilisation=0.95)
    expected = Cluster().run(tasks, create("late_binding(deferred=0)")).outcomes.latency
    np.testing.assert_array_equal(env.latencies(), expected)
    typical = isolated_optimum(tasks, workstation(), AnalyticPhysics()).mean()
    assert total == pytest.approx(-expected.sum() / typical)
    assert steps > 100


def test_other_orders_also_run_every_task_and_the_mask_marks_the_candidates():
    env = gymnasium.make("HybridScheduler-Queue-v0", loads=[0.95], episode_tasks=100, candidates=4)
    observation, info = env.reset(seed=2)
    rng, over = np.random.default_rng(0), False
    while not over:
        assert info["action_mask"].sum() >= 2
        assert observation in env.observation_space
        action = rng.choice(np.flatnonzero(info["action_mask"]))
        observation, _, terminated, over, info = env.step(action)
        assert not terminated
    assert np.isfinite(env.unwrapped.latencies()).all()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.unwrapped.step(0)
    env.reset()
    with pytest.raises(InvalidInputError, match="from 0 to 3"):
        env.unwrapped.step(4)


def test_loads_without_a_queue_are_refused():
    env = gymnasium.make("HybridScheduler-Queue-v0", scenarios=["small"], loads=[1e-6], episode_tasks=2)
    with pytest.raises(InvalidInputError, match="high enough that two tasks wait"):
        env.reset(seed=1)
