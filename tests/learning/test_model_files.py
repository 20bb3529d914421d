"""Model files: loading without running code, and refusal of bad files with the old model in place."""

import hashlib
import json
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("skops")
from hybrid_scheduler import platform_named, workstation
from hybrid_scheduler.learning import model_files
from hybrid_scheduler.learning.duration.features import FEATURE_NAMES
from hybrid_scheduler.learning.duration.online_duration_model import OnlineDurationModel
from hybrid_scheduler.learning.model_files import (
    Manifest,
    ModelFileError,
    load,
    load_forest_durations,
    manifest_path,
    save,
)
from hybrid_scheduler.learning.offline_trainer import train_default_duration_model
from hybrid_scheduler.workload.scenarios import generate, scenario_named


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "times.skops"
    metrics = train_default_duration_model(path, 0, num_tasks=600, trees=5)
    assert metrics["test_r2"] > 0.99
    return path


@pytest.fixture
def copy(trained, tmp_path):
    shutil.copy(trained, tmp_path / "times.skops")
    shutil.copy(manifest_path(trained), tmp_path / "times.json")
    return tmp_path / "times.skops"


def rewrite(path, **changes):
    """Change the arrays in a model file, with a manifest that agrees, as a forger would."""
    arrays, manifest = load(path, "times")
    arrays.update(changes)
    save(arrays, path, manifest)


@pytest.mark.parametrize("platform", ["workstation", "laptop", "mixed-gpus", "accelerators", "cluster-16"])
def test_shipped_model_serves_every_built_in_platform(trained, platform):
    times = OnlineDurationModel(pretrained=trained)
    times.start(platform_named(platform), 0)
    assert times.ready
    assert times.versions[0].trigger == "pretrained"


def test_unknown_device_class_starts_without_a_model(trained):
    from dataclasses import replace

    strange = workstation(1)
    strange = replace(strange, devices=(strange.devices[0], replace(strange.devices[1], speedup_slope=9.0)))
    times = OnlineDurationModel(pretrained=trained)
    times.start(strange, 0)
    assert not times.ready


def test_loaded_model_predicts_bit_for_bit_the_same(trained, copy):
    work = generate(scenario_named("mixed"), 50, 1)
    tables = []
    for path in (trained, copy):
        times = OnlineDurationModel(pretrained=path)
        times.start(workstation(), 0)
        tables.append(times.table(work))
    assert np.array_equal(*tables)


def test_manifest_describes_the_model(copy):
    manifest = json.loads(manifest_path(copy).read_text())
    assert manifest["features"] == list(FEATURE_NAMES)
    assert manifest["kind"] == "times"
    assert len(manifest["device_classes"]) == 6
    assert {"scikit-learn", "skops", "numpy"} <= set(manifest["versions"])
    assert len(manifest["sha256"]) == len(manifest["training_data_sha256"]) == 64
    assert manifest["metrics"]["test_r2"] > 0.99


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
    arrays, manifest = load(path, "times")
    save(arrays, path, Manifest("times", FEATURE_NAMES[:4], manifest.device_classes))


def of_another_kind(path):
    save({"a": np.zeros(3)}, path, Manifest("random_forest"))


def with_nan(path):
    arrays, _ = load(path, "times")
    rewrite(path, coefficients=np.full_like(arrays["coefficients"], np.nan))


def with_nan_in_a_leaf(path):
    arrays, _ = load(path, "times")
    values = arrays["values"].copy()
    values[3] = np.inf
    rewrite(path, values=values)


def with_a_loop(path):
    arrays, _ = load(path, "times")
    child = arrays["child"].copy()
    child[5] = 0
    rewrite(path, child=child)


def with_a_branch_into_nowhere(path):
    arrays, _ = load(path, "times")
    child = arrays["child"].copy()
    child[0] = 10**6
    rewrite(path, child=child)


def with_too_few_columns(path):
    rewrite(path, fixed=np.zeros(2))


@pytest.mark.parametrize(
    "spoil",
    [
        altered, truncated, foreign, without_manifest, with_garbage_for_manifest, with_other_features,
        of_another_kind, with_nan, with_nan_in_a_leaf, with_a_loop, with_a_branch_into_nowhere,
        with_too_few_columns,
    ],
)  # fmt: skip
def test_bad_files_are_refused(copy, spoil):
    spoil(copy)
    with pytest.raises(ModelFileError) as caught:
        load_forest_durations(copy)
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
    manifest = {**asdict(Manifest("times")), "sha256": digest}
    manifest_path(path).write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match="not a model file"):
        load_forest_durations(path)


def test_duration_models_load_without_scikit_learn(trained):
    heavy = {"skops", "sklearn", "pandas"}
    code = (
        "import sys; from hybrid_scheduler.learning.model_files import load_forest_durations\n"
        f"print(load_forest_durations({str(trained)!r}).fitted.samples, *({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(load_forest_durations(trained).fitted.samples)]


def test_plain_arrays_are_read_as_skops_reads_them(trained):
    from skops.io import loads

    content = trained.read_bytes()
    own, theirs = model_files.plain_arrays(content), loads(content)
    assert own is not None
    assert list(own) == list(theirs)
    for name, array in theirs.items():
        assert own[name].dtype == array.dtype
        np.testing.assert_array_equal(own[name], array)


def test_arrays_of_objects_are_left_to_skops(tmp_path):
    path = tmp_path / "objects.skops"
    save({"a": np.array([1, "b"], dtype=object)}, path, Manifest("times"))
    assert model_files.plain_arrays(path.read_bytes()) is None


def test_untrusted_types_are_refused(tmp_path):
    path = tmp_path / "odd.skops"
    save({"counter": Counter(a=1)}, path, Manifest("times"))
    with pytest.raises(ModelFileError, match="not trusted"):
        load_forest_durations(path)


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
    assert load_forest_durations(copy).fitted.samples > 0
