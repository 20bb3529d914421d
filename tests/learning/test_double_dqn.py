"""Double DQN agent: learning, reproducibility, and agreement of both networks."""

import sys
from types import ModuleType

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hybrid_scheduler import HybridSchedulerError  # noqa: E402
from hybrid_scheduler.learning.dqn.adam import Adam  # noqa: E402
from hybrid_scheduler.learning.dqn.decision_options import ACTIONS, FEATURES  # noqa: E402
from hybrid_scheduler.learning.dqn.double_dqn import DQN, DQNSettings  # noqa: E402
from hybrid_scheduler.learning.dqn.q_network import (  # noqa: E402
    NetworkShape,
    RowNetwork,
    as_tensors,
    backward,
    forward,
    initial_weights,
)
from hybrid_scheduler.learning.dqn.queue_env import QueueEnv  # noqa: E402
from hybrid_scheduler.learning.dqn.replay_buffer import ReplayBuffer  # noqa: E402
from hybrid_scheduler.learning.dqn.training import pretrain, train_agent  # noqa: E402

SMALL = {"num_envs": 8, "episode_tasks": 100, "scenarios": ["mixed"], "loads": [0.9]}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Corridor:
    """Two states. In state 0 action 1 costs more now and leads to state 1, where everything is free.

    Staying in state 0 costs 1 a step for ever: only a learner that looks ahead pays 1.5 once.
    """

    num_envs = 16
    costs = np.array([[1.0, 1.5], [0.0, 0.0]])

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros(self.num_envs, np.int64)
        self.look()

    def look(self):
        self.features = np.eye(2, dtype=np.float32)[self.state]
        self.known = self.costs[self.state]

    def step(self, actions):
        paid = self.known[np.arange(self.num_envs), actions]
        self.state = np.maximum(self.state, actions)
        self.look()
        return -0.1 * paid, self.rng.random(self.num_envs) < 0.1

    def restart(self, which):
        self.state[which] = 0
        self.look()


def test_agent_solves_a_trivial_environment():
    agent = DQN(2, 2, seed=0, settings=DQNSettings(gamma=0.9, hidden=32, replay=2000))
    env = Corridor(0)
    assert agent.act(env.features, env.known).tolist() == [0] * 16  # untrained: what costs least now
    pretrain(agent, env, 800, epsilon=(1.0, 0.1))
    env.restart(np.ones(16, np.bool_))
    assert agent.act(env.features, env.known).tolist() == [1] * 16


def test_untrained_agent_takes_the_least_known_cost():
    env = QueueEnv(32, seed=1, episode_tasks=50)
    agent = DQN(FEATURES["queue"], ACTIONS, seed=0)
    for _ in range(20):
        np.testing.assert_array_equal(agent.act(env.features, env.known), env.known.argmin(axis=1))
        env.step(env.known.argmin(axis=1))


@pytest.mark.parametrize("replay", ["counterfactual", "bandit"])
def test_same_seed_gives_the_same_agent(replay):
    first, again, other = (train_agent(seed, 60, replay=replay, **SMALL) for seed in (3, 3, 4))
    assert np.array_equal(first.weights, again.weights)
    assert not np.array_equal(first.weights, other.weights)
    assert np.isfinite(first.weights).all()


def test_compiled_row_agrees_with_torch():
    rng = np.random.default_rng(0)
    shape = NetworkShape(FEATURES["queue"], ACTIONS)
    weights = initial_weights(shape, rng)
    for part in shape.split(weights)[4:]:
        part[:] = rng.normal(size=part.shape) / 10
    x = rng.normal(size=(500, shape.features)).astype(np.float32)
    known = rng.uniform(0, 2, (500, ACTIONS))
    known[rng.random((500, ACTIONS)) < 0.3] = np.inf
    known[:, 0] = 1.0
    expected = forward(as_tensors(shape, weights), torch.from_numpy(x))[0].numpy()
    row = RowNetwork(shape, weights)
    for i in range(500):
        action = row.best(x[i], known[i], 0.02)
        np.testing.assert_allclose(row.q, expected[i], rtol=1e-4, atol=1e-5)
        assert action == (expected[i] - 0.02 * known[i]).argmax()


def test_gradient_equals_that_of_torch():
    rng = np.random.default_rng(1)
    shape = NetworkShape(7, 3, 16)
    weights = rng.normal(size=len(shape)).astype(np.float32)
    x, dq = (torch.from_numpy(rng.normal(size=size).astype(np.float32)) for size in ((9, 7), (9, 3)))
    parts, gradients = as_tensors(shape, weights), as_tensors(shape, np.zeros_like(weights))
    _, h1, h2 = forward(parts, x)
    backward(parts, gradients, x, h1, h2, dq)
    leaves = [part.clone().requires_grad_() for part in parts]
    (forward(leaves, x)[0] * dq).sum().backward()
    for ours, leaf in zip(gradients, leaves, strict=True):
        torch.testing.assert_close(ours, leaf.grad, rtol=1e-4, atol=1e-4)


def test_adam_step_equals_that_of_torch():
    rng = np.random.default_rng(2)
    ours = rng.normal(size=200).astype(np.float32)
    theirs = torch.from_numpy(ours.copy()).requires_grad_()
    adam, reference = Adam(ours), torch.optim.Adam([theirs], lr=1e-2)
    for _ in range(50):
        gradient = (5 * rng.normal(size=200)).astype(np.float32)
        theirs.grad = torch.from_numpy(gradient.copy())
        torch.nn.utils.clip_grad_norm_([theirs], 10.0)
        reference.step()
        adam.step(gradient, float(np.linalg.norm(gradient)), 1e-2, 10.0)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-3, atol=1e-4)


def test_compiled_row_uses_updated_weights_at_once():
    agent = DQN(3, 2, seed=0, settings=DQNSettings(hidden=16))
    x, known = np.ones((1, 3), np.float32), np.zeros((1, 2))
    agent.replay.add(
        np.repeat(x, 64, 0), np.zeros((64, 2)), np.ones((64, 1), np.int64), np.ones((64, 1)),
        np.zeros((64, 1, 3), np.float32), np.zeros((64, 1, 2)), np.ones((64, 1), np.bool_),
    )  # fmt: skip
    for _ in range(50):
        agent.update()
    assert agent.act(x, known)[0] == agent.act_row(x[0], known[0]) == 1


def test_masked_actions_are_never_taken():
    agent = DQN(3, 4, seed=0, settings=DQNSettings(hidden=16))
    known = np.array([[np.inf, 1.0, np.inf, 2.0]] * 200)
    x = np.zeros((200, 3), np.float32)
    assert set(agent.act(x, known, epsilon=1.0).tolist()) == {1, 3}
    assert {agent.act_row(x[0], known[0], epsilon=1.0) for _ in range(50)} == {1, 3}


def test_full_replay_buffer_overwrites_the_oldest_rows():
    ring = ReplayBuffer(10, 1, 2, 1)
    for i in range(25):
        ring.add(
            np.full((1, 1), i, np.float32), np.zeros((1, 2)), np.zeros((1, 1), np.int64), np.zeros((1, 1)),
            np.zeros((1, 1, 1), np.float32), np.zeros((1, 1, 2)), np.ones((1, 1), np.bool_),
        )  # fmt: skip
    drawn = ring.sample(500, np.random.default_rng(0)).features
    assert len(ring) == 10
    assert set(drawn.ravel().tolist()) == set(range(15, 25))
    ring.flush(keep=3)
    assert set(ring.sample(100, np.random.default_rng(0)).features.ravel().tolist()) == {22, 23, 24}


class Log:
    """A SummaryWriter that records its calls."""

    def __init__(self, folder):
        self.folder, self.scalars, self.closed = folder, [], False
        Log.last = self

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def close(self):
        self.closed = True


def test_tensorboard_gets_every_loss_and_periodic_rewards(monkeypatch, tmp_path):
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Log
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr("hybrid_scheduler.learning.dqn.training._REPORT_EVERY", 20)
    logged = train_agent(3, 60, log_dir=tmp_path / "runs", **SMALL)
    log = Log.last
    losses = [(value, step) for name, value, step in log.scalars if name == "dqn/loss"]
    rewards = [value for name, value, _ in log.scalars if name == "dqn/reward"]
    assert log.folder == str(tmp_path / "runs")
    assert [step for _, step in losses] == list(range(1, logged.notes["updates"] + 1))
    assert all(np.isfinite(loss) and loss >= 0 for loss, _ in losses)
    assert len(rewards) == 3
    assert all(reward < 0 for reward in rewards)
    assert log.closed
    assert np.array_equal(logged.weights, train_agent(3, 60, **SMALL).weights)  # watching changes nothing


def test_log_without_tensorboard_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # as if it were not installed
    with pytest.raises(HybridSchedulerError, match="needs the package tensorboard") as failure:
        train_agent(3, 60, log_dir=tmp_path, **SMALL)
    assert "pip install tensorboard" in failure.value.hint


def test_infinite_worst_known_allows_every_option_that_fits():
    masked, free = (QueueEnv(seed=1, worst_known=worst, **SMALL) for worst in (1.4, np.inf))
    for _ in range(50):
        np.testing.assert_array_equal(free.known, free.cost)
        assert np.isfinite(masked.known).sum() < np.isfinite(free.known).sum()
        for env in (masked, free):
            env.step(env.cost.argmin(axis=1))
