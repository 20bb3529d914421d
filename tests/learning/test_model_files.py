"""Model files: loading without running code, and refusal of bad files with the old model in place."""

import hashlib
import json
import pickle
import shutil
from collections import Counter
from dataclasses import asdict, replace

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("skops")
from hybrid_scheduler.learning.duration.features import FEATURE_NAMES
from hybrid_scheduler.learning.model_files import (
    Manifest,
    ModelFileError,
    manifest_path,
    save,
)
from hybrid_scheduler.learning.offline_trainer import train_default_duration_model
from hybrid_scheduler.learning.predictors import RandomForestPredictor, load_durations


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "times.skops"
    metrics = train_default_duration_model(path, 0, num_tasks=600, trees=5)
    assert metrics["test_r2"] > 0.95
    return path


@pytest.fixture
def copy(trained, tmp_path):
    shutil.copy(trained, tmp_path / "times.skops")
    shutil.copy(manifest_path(trained), tmp_path / "times.json")
    return tmp_path / "times.skops"


def test_loaded_model_predicts_bit_for_bit_the_same(trained, copy):
    first, second = (load_durations(path).spread_predictions(50)[1] for path in (trained, copy))
    assert np.array_equal(first, second)


def test_manifest_describes_the_model(copy):
    manifest = json.loads(manifest_path(copy).read_text())
    assert manifest["features"] == list(FEATURE_NAMES)
    assert (manifest["kind"], manifest["target"]) == ("random_forest", "times")
    assert len(manifest["device_classes"]) == 2
    assert {"scikit-learn", "skops", "numpy"} <= set(manifest["versions"])
    assert len(manifest["sha256"]) == len(manifest["training_data_sha256"]) == 64
    assert manifest["metrics"]["test_r2"] > 0.95


def altered(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def truncated(path):
    path.write_bytes(path.read_bytes()[:-100])


def foreign(path):
    path.write_bytes(b"not a model")
    manifest = json.loads(manifest_path(path).read_text())
    manifest["sha256"] = hashlib.sha256(b"not a model").hexdigest()
    manifest_path(path).write_text(json.dumps(manifest))


def without_manifest(path):
    manifest_path(path).unlink()


def with_garbage_for_manifest(path):
    manifest_path(path).write_text("{")


def with_other_features(path):
    predictor = RandomForestPredictor.load(path)
    save(predictor.packed(), path, replace(Manifest("random_forest"), features=FEATURE_NAMES[:4], target="times"))


def of_an_earlier_version(path):
    save({"a": np.zeros(3)}, path, Manifest("times"))


def without_trees(path):
    save({"a": np.zeros(3)}, path, Manifest("random_forest", target="times"))


def with_a_loop(path):
    predictor = RandomForestPredictor.load(path)
    tree = predictor.model_.estimators_[0].tree_
    tree.children_left[np.flatnonzero(tree.children_left >= 0)[-1]] = 0
    save(
        predictor.packed(), path, replace(Manifest("random_forest", target="times"), device_classes=("cpu", "gpu"))
    )


@pytest.mark.parametrize(
    "spoil",
    [
        altered, truncated, foreign, without_manifest, with_garbage_for_manifest, with_other_features,
        of_an_earlier_version, without_trees, with_a_loop,
    ],
)  # fmt: skip
def test_bad_files_are_refused(copy, spoil):
    spoil(copy)
    with pytest.raises(ModelFileError) as caught:
        load_durations(copy)
    assert caught.value.exit_code == 2
    assert str(copy.with_suffix("")) in str(caught.value)


def test_pickle_is_refused_and_not_run(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("code was run",))

    content = pickle.dumps(Bomb())
    path = tmp_path / "bomb.skops"
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    manifest = {**asdict(Manifest("random_forest")), "sha256": digest}
    manifest_path(path).write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match="not a model file"):
        load_durations(path)


def test_untrusted_types_are_refused(tmp_path):
    path = tmp_path / "odd.skops"
    save({"counter": Counter(a=1)}, path, Manifest("random_forest"))
    with pytest.raises(ModelFileError, match="not trusted"):
        load_durations(path)


def test_full_disk_leaves_the_old_model(copy, monkeypatch):
    before, note = copy.read_bytes(), manifest_path(copy).read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("skops.io.dump", full)
    with pytest.raises(OSError, match="No space left"):
        save({"a": np.zeros(3)}, copy, Manifest("times"))
    assert copy.read_bytes() == before
    assert manifest_path(copy).read_bytes() == note
    assert sorted(entry.name for entry in copy.parent.iterdir()) == ["times.json", "times.skops"]
    assert load_durations(copy).target == "times"
