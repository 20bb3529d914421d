"""Model files of the agent: unchanged round trips, and refusal of everything else."""

import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hybrid_scheduler.learning.dqn.decision_options import ACTIONS, FEATURES  # noqa: E402
from hybrid_scheduler.learning.dqn.model_file import AgentModel, load_model, save_model  # noqa: E402
from hybrid_scheduler.learning.dqn.q_network import NetworkShape, initial_weights  # noqa: E402
from hybrid_scheduler.learning.model_files import ModelFileError  # noqa: E402


@pytest.fixture
def model():
    weights = initial_weights(NetworkShape(FEATURES["queue"], ACTIONS, 16), np.random.default_rng(0))
    return AgentModel("queue", "split", 0.98, weights, {"seed": 0}, 16)


@pytest.fixture
def path(tmp_path, model):
    save_model(tmp_path / "agent.pth", model)
    return tmp_path / "agent.pth"


def test_saved_model_loads_bit_for_bit(path, model):
    loaded = load_model(path)
    assert np.array_equal(loaded.weights, model.weights)
    assert (loaded.state, loaded.actions, loaded.gamma, loaded.notes) == ("queue", "split", 0.98, {"seed": 0})
    assert [entry.name for entry in path.parent.iterdir()] == ["agent.pth"]


def changed(path, **changes):
    content = torch.load(path, weights_only=True)
    content.update(changes)
    torch.save(content, path)


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="does not exist") as error:
        load_model(tmp_path / "none.pth")
    assert error.value.exit_code == 2


@pytest.mark.parametrize("size", [0, 10, 1000])
def test_truncated_file_is_refused(path, size):
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)


def test_altered_weights_are_refused(path, model):
    content = bytearray(path.read_bytes())
    at = bytes(content).index(model.weights[:8].tobytes())
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"altered|damaged"):
        load_model(path)


class Bomb:
    def __reduce__(self):
        return print, ("this must never run",)


@pytest.mark.parametrize("foreign", [b"hello", pickle.dumps({"format": 1}), pickle.dumps(Bomb())])
def test_foreign_file_is_refused(tmp_path, foreign, capsys):
    path = tmp_path / "foreign.pth"
    path.write_bytes(foreign)
    with pytest.raises(ModelFileError):
        load_model(path)
    assert capsys.readouterr().out == ""


def test_code_in_a_torch_file_does_not_run(path, capsys):
    torch.save({"format": Bomb()}, path)
    with pytest.raises(ModelFileError):
        load_model(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": "another"}, "not an agent"),
        ({"version": 99}, "version 99"),
        ({"state": "task"}, "shape"),
        ({"actions": "guess"}, "do not exist"),
        ({"gamma": float("nan")}, "gamma"),
        ({"hidden": 8}, "shape"),
        ({"weights": {}}, "lacks"),
        ({"sha256": ""}, "altered"),
    ],
)
def test_file_for_another_setting_is_refused(path, changes, complaint):
    changed(path, **changes)
    with pytest.raises(ModelFileError, match=complaint):
        load_model(path)


def test_weights_that_are_not_finite_are_refused(tmp_path, model):
    model.weights[3] = np.nan
    save_model(tmp_path / "nan.pth", model)
    with pytest.raises(ModelFileError, match="finite"):
        load_model(tmp_path / "nan.pth")


def test_failed_save_leaves_the_old_file(path, model, monkeypatch):
    before = path.read_bytes()

    def full_disk(content, file):
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    with pytest.raises(ModelFileError, match="No space left"):
        save_model(path, model)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["agent.pth"]
