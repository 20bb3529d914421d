"""Double DQN agent: learning, reproducibility, and agreement of both networks."""

import sys
from types import ModuleType

import numpy as np
import pytest

from hybrid_scheduler import HybridSchedulerError
from hybrid_scheduler.learning.dqn.decision_options import ACTIONS, FEATURES
from hybrid_scheduler.learning.dqn.double_dqn import DQN, Adam, DQNSettings, ReplayBuffer
from hybrid_scheduler.learning.dqn.q_network import (
    NetworkShape,
    QNetwork,
    initial_weights,
)
from hybrid_scheduler.learning.dqn.queue_env import QueueEnv
from hybrid_scheduler.learning.dqn.training import pretrain, train_agent

SMALL = {"num_envs": 8, "episode_tasks": 100, "scenarios": ["mixed"], "loads": [0.9]}


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
        self.masked_cost = self.costs[self.state]

    def step(self, actions):
        paid = self.masked_cost[np.arange(self.num_envs), actions]
        self.state = np.maximum(self.state, actions)
        self.look()
        return -0.1 * paid, self.rng.random(self.num_envs) < 0.1

    def restart(self, which):
        self.state[which] = 0
        self.look()


def test_agent_solves_a_trivial_environment():
    agent = DQN(2, 2, seed=0, settings=DQNSettings(gamma=0.9, hidden=32, replay=2000))
    env = Corridor(0)
    assert agent.act(env.features, env.masked_cost).tolist() == [0] * 16  # untrained: what costs least now
    pretrain(agent, env, 800, epsilon=(1.0, 0.1))
    env.restart(np.ones(16, np.bool_))
    assert agent.act(env.features, env.masked_cost).tolist() == [1] * 16


def test_untrained_agent_takes_the_least_known_cost():
    env = QueueEnv(32, seed=1, episode_tasks=50)
    agent = DQN(FEATURES, ACTIONS, seed=0)
    for _ in range(20):
        np.testing.assert_array_equal(agent.act(env.features, env.masked_cost), env.masked_cost.argmin(axis=1))
        env.step(env.masked_cost.argmin(axis=1))


@pytest.mark.parametrize("replay", ["counterfactual", "bandit"])
def test_same_seed_gives_the_same_agent(replay):
    first, again, other = (train_agent(seed, 60, replay=replay, **SMALL) for seed in (3, 3, 4))
    assert np.array_equal(first.weights, again.weights)
    assert not np.array_equal(first.weights, other.weights)
    assert np.isfinite(first.weights).all()


def in_torch(torch, shape, weights, x):
    """Return q as torch computes it from parts in the order of the flat vector."""
    w1, b1, w2, b2, wv, bv, wa, ba = weights
    h2 = torch.relu(torch.relu(x @ w1 + b1) @ w2 + b2)
    half = shape.hidden // 2
    advantage = h2[:, half:] @ wa + ba
    return h2[:, :half] @ wv + bv + 0.05 * (advantage - advantage.mean(1, keepdim=True))


def random_weights(shape, rng):
    weights = initial_weights(shape, rng)
    for part in shape.split(weights)[4:]:
        part[:] = rng.normal(size=part.shape) / 10
    return weights


def test_values_and_best_action_agree_with_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    shape = NetworkShape(FEATURES, ACTIONS)
    weights = random_weights(shape, rng)
    x = rng.normal(size=(500, shape.features)).astype(np.float32)
    x[:, 3] = 0.0
    masked_cost = rng.uniform(0, 2, (500, ACTIONS))
    masked_cost[rng.random((500, ACTIONS)) < 0.3] = np.inf
    masked_cost[:, 0] = 1.0
    parts = [torch.from_numpy(part) for part in shape.split(weights)]
    expected = in_torch(torch, shape, parts, torch.from_numpy(x)).numpy()
    network = QNetwork(shape, weights)
    np.testing.assert_allclose(network.values(x), expected, rtol=1e-4, atol=1e-5)
    for i in range(500):
        action = network.best(x[i], masked_cost[i], 0.02)
        np.testing.assert_allclose(network.q, expected[i], rtol=1e-4, atol=1e-5)
        assert action == (expected[i] - 0.02 * masked_cost[i]).argmax()


def test_gradient_equals_that_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    agent = DQN(7, 3, seed=0, width=3, settings=DQNSettings(hidden=16, batch=9))
    agent.weights[:] = rng.normal(size=len(agent.shape))
    x, cost, reward = rng.normal(size=(9, 7)), rng.uniform(0.5, 2, (9, 3)), rng.normal(size=(9, 3))
    agent.replay.add(
        x, cost, np.arange(3), reward, np.zeros((9, 3, 7)), np.zeros((9, 3, 3)), np.ones((9, 3), np.bool_)
    )
    loss, length = agent.batch_gradient(  # gamma 0: no look ahead
        agent.weights, agent.target, agent.gradient, agent.replay.columns, np.arange(9), 0.0, 2.0, 16
    )
    leaves = [torch.from_numpy(part).clone().requires_grad_() for part in agent.shape.split(agent.weights)]
    q = in_torch(torch, agent.shape, leaves, torch.from_numpy(x.astype(np.float32)))
    cost, reward = torch.from_numpy(cost), torch.from_numpy(reward)
    error = (q - cost - reward) / (1.0 + cost.min(1, keepdim=True).values)
    mean = error.mean(1, keepdim=True)
    expected = (mean.square() + 2.0 * (error - mean).square().mean(1, keepdim=True)).mean()
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-4)
    assert length == pytest.approx(np.linalg.norm(agent.gradient), rel=1e-4)
    for ours, leaf in zip(agent.shape.split(agent.gradient), leaves, strict=True):
        np.testing.assert_allclose(ours, leaf.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_batch_gradient_equals_the_slope_of_the_loss():
    rng = np.random.default_rng(5)
    agent = DQN(4, 3, seed=0, width=3, settings=DQNSettings(hidden=8, batch=16))
    agent.weights[:] = random_weights(agent.shape, rng)
    agent.target[:] = random_weights(agent.shape, rng)
    valid = rng.random((40, 3)) < 0.7
    valid[:, 1] = True
    agent.replay.add(
        rng.normal(size=(40, 4)), rng.uniform(0.5, 2, (40, 3)), np.arange(3), rng.normal(size=(40, 3)),
        rng.normal(size=(40, 3, 4)), rng.uniform(0.5, 2, (40, 3, 3)), valid,
    )  # fmt: skip
    rows = agent.replay.draw(16, rng)

    def loss(weights):
        # gamma 0: the look ahead also depends on the weights, but counts as a constant of the loss
        return agent.batch_gradient(weights, agent.target, agent.gradient, agent.replay.columns, rows, 0.0, 2.0, 8)[
            0
        ]

    loss(agent.weights)
    gradient = agent.gradient.copy()
    for i in rng.choice(len(gradient), 40, replace=False):
        step = np.zeros_like(agent.weights)
        step[i] = 1e-2
        slope = (loss(agent.weights + step) - loss(agent.weights - step)) / 2e-2
        assert abs(slope - gradient[i]) < 2e-2 * max(1.0, abs(slope))


def test_adam_step_equals_that_of_torch():
    torch = pytest.importorskip("torch")
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


def test_compiled_row_uses_updated_weights_at_once_and_losses_are_kept():
    agent = DQN(3, 2, seed=0, settings=DQNSettings(hidden=16))
    x, masked_cost = np.ones((1, 3), np.float32), np.zeros((1, 2))
    agent.replay.add(
        np.repeat(x, 64, 0), np.zeros((64, 2)), np.ones((64, 1), np.int64), np.ones((64, 1)),
        np.zeros((64, 1, 3), np.float32), np.zeros((64, 1, 2)), np.ones((64, 1), np.bool_),
    )  # fmt: skip
    assert (agent.loss, agent.take_mean_loss()) == (None, None)
    losses = [agent.update() for _ in range(50)]
    assert agent.act(x, masked_cost)[0] == agent.act_row(x[0], masked_cost[0]) == 1
    # The mean covers the updates since it was last taken.
    assert agent.loss == losses[-1]
    assert agent.take_mean_loss() == pytest.approx(np.mean(losses))
    assert agent.take_mean_loss() is None


def test_masked_actions_are_never_taken():
    agent = DQN(3, 4, seed=0, settings=DQNSettings(hidden=16))
    masked_cost = np.array([[np.inf, 1.0, np.inf, 2.0]] * 200)
    x = np.zeros((200, 3), np.float32)
    assert set(agent.act(x, masked_cost, epsilon=1.0).tolist()) == {1, 3}
    assert {agent.act_row(x[0], masked_cost[0], epsilon=1.0) for _ in range(50)} == {1, 3}


def test_full_replay_buffer_overwrites_the_oldest_rows():
    ring = ReplayBuffer(10, 1, 2, 1)
    for i in range(25):
        ring.add(
            np.full((1, 1), i, np.float32), np.zeros((1, 2)), np.zeros((1, 1), np.int64), np.zeros((1, 1)),
            np.zeros((1, 1, 1), np.float32), np.zeros((1, 1, 2)), np.ones((1, 1), np.bool_),
        )  # fmt: skip
    drawn = ring.columns.features[ring.draw(500, np.random.default_rng(0))]
    assert len(ring) == 10
    assert set(drawn.ravel().tolist()) == set(range(15, 25))
    ring.flush(keep=3)
    assert set(ring.columns.features[ring.draw(100, np.random.default_rng(0))].ravel().tolist()) == {22, 23, 24}


class Log:
    """A TensorBoard writer that records its calls."""

    last: "Log"

    def __init__(self, folder):
        self.folder, self.scalars, self.closed = folder, [], False
        Log.last = self

    def add_scalar(self, name, value, step):
        self.scalars.append((name, value, step))

    def close(self):
        self.closed = True


def test_tensorboard_gets_every_loss_and_periodic_rewards(monkeypatch, tmp_path):
    module = ModuleType("tensorboard.summary")
    monkeypatch.setattr(module, "Writer", Log, raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "tensorboard.summary", module)
    monkeypatch.setattr("hybrid_scheduler.learning.dqn.training.REPORT_EVERY", 20)
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
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # as if it were not installed
    with pytest.raises(HybridSchedulerError, match="needs the package tensorboard") as failure:
        train_agent(3, 60, log_dir=tmp_path, **SMALL)
    assert "pip install tensorboard" in failure.value.hint


def test_infinite_max_cost_ratio_allows_every_option_that_fits():
    masked, free = (QueueEnv(seed=1, max_cost_ratio=worst, **SMALL) for worst in (1.4, np.inf))
    for _ in range(50):
        np.testing.assert_array_equal(free.masked_cost, free.cost)
        assert np.isfinite(masked.masked_cost).sum() < np.isfinite(free.masked_cost).sum()
        for env in (masked, free):
            env.step(env.cost.argmin(axis=1))
