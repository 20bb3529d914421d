"""The environment is a standard one: Gymnasium's own checks pass without a warning."""

import warnings

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

import hybrid_scheduler.gym  # noqa: E402, F401  registers the environment
from hybrid_scheduler import InvalidInputError  # noqa: E402

QUICK = {"episode_tasks": 30}


@pytest.mark.parametrize("options", [{}, {"state": "task", "actions": "placement", "scenarios": ["oom"]}])
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
