"""Model files of the agent: unchanged round trips, and refusal of everything else."""

import hashlib
import json
import pickle
import sys

import numpy as np
import pytest

from hybrid_scheduler.learning.dqn import model_file
from hybrid_scheduler.learning.dqn.decision_options import ACTIONS, FEATURES
from hybrid_scheduler.learning.dqn.model_file import AgentModel, load_model, save_model
from hybrid_scheduler.learning.dqn.q_network import NAMES, NetworkShape, initial_weights
from hybrid_scheduler.learning.model_files import ModelFileError


@pytest.fixture
def model():
    weights = initial_weights(NetworkShape(FEATURES, ACTIONS, 16), np.random.default_rng(0))
    return AgentModel(0.98, weights, {"seed": 0}, 16)


@pytest.fixture
def path(tmp_path, model):
    save_model(tmp_path / "agent.safetensors", model)
    return tmp_path / "agent.safetensors"


def test_saved_model_loads_bit_for_bit(path, model):
    loaded = load_model(path)
    assert np.array_equal(loaded.weights, model.weights)
    assert (loaded.gamma, loaded.notes) == (0.98, {"seed": 0})
    assert [entry.name for entry in path.parent.iterdir()] == ["agent.safetensors"]


def parts_of(path):
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def written(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def changed(path, **changes):
    header, data = parts_of(path)
    header["__metadata__"].update(changes)
    written(path, header, data)


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="does not exist") as error:
        load_model(tmp_path / "none.safetensors")
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
    path = tmp_path / "foreign.safetensors"
    path.write_bytes(foreign)
    with pytest.raises(ModelFileError):
        load_model(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"nothing", b'{"__metadata__": 3}'])
def test_header_that_is_no_description_is_refused(path, text):
    written(path, text, parts_of(path)[1])
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [16], "data_offsets": [0, 10**18]},
        {"dtype": "F32", "shape": [16], "data_offsets": [0, -8]},
        {"dtype": "F32", "shape": [16], "data_offsets": [4, 68]},
        {"dtype": "F32", "shape": [10**18, 10**18], "data_offsets": [0, 1344]},
        {"dtype": "F64", "shape": [21, 8], "data_offsets": [0, 1344]},
        {"dtype": "F32", "shape": [336], "data_offsets": ["0", None]},
        {},
        None,
    ],
)
def test_array_outside_the_file_is_refused(path, entry):
    header, data = parts_of(path)
    written(path, {**header, "w1": entry}, data)
    with pytest.raises(ModelFileError, match=r"damaged|must be float32"):
        load_model(path)


def test_missing_and_additional_weights_are_refused(path):
    header, data = parts_of(path)
    written(path, {name: entry for name, entry in header.items() if name != "ba"}, data)
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)
    end = header["ba"]["data_offsets"][1]
    header["more"] = {"dtype": "F32", "shape": [0], "data_offsets": [end, end]}
    written(path, header, data)
    with pytest.raises(ModelFileError, match="lacks"):
        load_model(path)


# ---------------------------------------------------------------- files of earlier versions


def torch_file(path, model, **changes):
    torch = pytest.importorskip("torch")
    parts = dict(zip(NAMES, model.shape.split(model.weights), strict=True))
    content = {
        "format": model_file.FORMAT, "version": 1, "state": "queue", "actions": "split",
        "gamma": model.gamma, "hidden": model.hidden, "notes": model.notes,
        "weights": {name: torch.from_numpy(part.copy()) for name, part in parts.items()},
        "sha256": hashlib.sha256(model.weights.tobytes()).hexdigest(),
    }  # fmt: skip
    torch.save({**content, **changes}, path)
    return torch


def test_file_of_an_earlier_version_loads_with_torch(tmp_path, model):
    torch_file(tmp_path / "old.pth", model)
    loaded = load_model(tmp_path / "old.pth")
    assert np.array_equal(loaded.weights, model.weights)
    assert (loaded.gamma, loaded.notes) == (0.98, {"seed": 0})


def test_file_of_an_earlier_version_without_torch_names_the_command(tmp_path, model, monkeypatch):
    torch_file(tmp_path / "old.pth", model)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModelFileError, match="torch") as error:
        load_model(tmp_path / "old.pth")
    assert error.value.hint == 'pip install "hybrid-scheduler[gpu]"'


@pytest.mark.parametrize("how", ["sparse", "meta", "text", "code"])
def test_hostile_file_of_an_earlier_version_is_refused(tmp_path, model, how, capsys):
    path = tmp_path / "old.pth"
    torch = torch_file(path, model)
    weights = torch.load(path, weights_only=True)["weights"]
    if how == "code":
        torch.save({"format": Bomb()}, path)
    else:
        bad = {"sparse": weights["w1"].to_sparse(), "meta": weights["w1"].to("meta"), "text": "w1"}[how]
        torch_file(path, model, weights={**weights, "w1": bad})
    with pytest.raises(ModelFileError):
        load_model(path)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": "another"}, "not an agent"),
        ({"version": "99"}, "version 99"),
        ({"version": "one"}, "damaged"),
        ({"state": "task"}, "only earlier versions"),
        ({"actions": "guess"}, "only earlier versions"),
        ({"gamma": "nan"}, "gamma"),
        ({"hidden": "8"}, "shape"),
        ({"notes": "[]"}, "lacks"),
        ({"notes": "[" * 100_000}, "damaged"),
        ({"sha256": ""}, "altered"),
    ],
)
def test_file_for_another_setting_is_refused(path, changes, complaint):
    changed(path, **changes)
    with pytest.raises(ModelFileError, match=complaint):
        load_model(path)


def test_weights_that_are_not_finite_are_refused(tmp_path, model):
    model.weights[3] = np.nan
    save_model(tmp_path / "nan.safetensors", model)
    with pytest.raises(ModelFileError, match="finite"):
        load_model(tmp_path / "nan.safetensors")


def test_failed_save_leaves_the_old_file(path, model, monkeypatch):
    before = path.read_bytes()

    def full_disk(file, content):
        with file.open("wb") as half:
            half.write(content[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "write_bytes", full_disk)
    with pytest.raises(ModelFileError, match="No space left"):
        save_model(path, model)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["agent.safetensors"]
