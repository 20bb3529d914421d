"""Published StarPU models, and damaged ones."""

import shutil
from pathlib import Path

import pytest

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.profiling.calibration import calibrate
from hybrid_scheduler.profiling.hardware_profile import load_profile, save_profile
from hybrid_scheduler.profiling.starpu_models import kernel_name, measured, read_codelet, read_starpu

FOLDER = Path(__file__).parent / "starpu"


def test_codelet_is_read_for_every_architecture() -> None:
    models = read_codelet(FOLDER / "codelets" / "chol_model_potrf.mirage")
    assert [(m.device, m.number, m.cores) for m in models] == [(0, 0, 1), (1, 0, 1), (1, 1, 1), (1, 2, 1)]
    first = models[0].entries[0]
    assert (first.hash, first.bytes, first.runs) == ("cea37d6d", 409600, 86)
    assert first.mean == pytest.approx(922.1097e-6)
    assert first.deviation == pytest.approx(45.21529e-6)


def test_rows_scaled_by_hand_are_left_out() -> None:
    kept, scaled = measured(read_codelet(FOLDER / "codelets" / "chol_model_potrf.mirage")[0].entries)
    assert [entry.bytes for entry in kept] == [409600, 3686400, 1638400]
    assert [entry.bytes for entry in scaled] == [4096]
    cuda = read_codelet(FOLDER / "codelets" / "starpu_sgemm_gemm.mirage")
    kept, scaled = measured(next(m for m in cuda if (m.device, m.number) == (1, 2)).entries)
    assert sorted(entry.bytes for entry in kept) == [3686400, 14745600, 33177600]
    assert len(scaled) == 6


def test_machine_is_read_as_a_profile(tmp_path: Path) -> None:
    profile = read_starpu(FOLDER, "mirage", gpu="Fermi")
    assert profile.kernels == ["chol_potrf", "sgemm", "slu_lu_getrf"]
    assert profile.machine.gpu is not None
    assert profile.machine.gpu.name == "Fermi"
    assert profile.machine.cores == 12
    assert [point.size for point in profile.of("chol_potrf")] == [320, 640, 960]
    assert [point.size for point in profile.of("slu_lu_getrf")] == [320, 640, 960]  # from bytes: no flops there
    smallest = profile.of("chol_potrf")[0]
    assert smallest.cpu_seconds is not None
    assert smallest.cpu_seconds.median == pytest.approx(922.1097e-6)
    assert smallest.host_to_device_seconds is not None
    assert smallest.host_to_device_seconds.pageable.median == pytest.approx(9.836008e-6 + 409600 / 6030.996807e6)
    assert smallest.device_to_host_seconds is not None
    assert smallest.device_to_host_seconds.pageable.median == pytest.approx(10.565859e-6 + 409600 / 6517.591026e6)
    assert any("scaled" in one.reason for one in profile.skipped)
    save_profile(profile, tmp_path / "p.json")
    assert load_profile(tmp_path / "p.json") == profile
    assert set(calibrate(profile).physics.kinds) == set(profile.kernels)


@pytest.mark.parametrize(
    ("codelet", "name"),
    [
        ("starpu_sgemm_gemm", "sgemm"),
        ("chol_model_potrf", "chol_potrf"),
        ("starpu_slu_lu_model_getrf", "slu_lu_getrf"),
    ],
)
def test_kernel_names_follow_from_codelet_names(codelet: str, name: str) -> None:
    assert kernel_name(codelet) == name


def test_unknown_machine_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="one of mirage"):
        read_starpu(FOLDER, "sirocco")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(FOLDER, tmp_path / "starpu")
    return tmp_path / "starpu"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n45\n", "\n44\n", "version: must be 45"),
        ("\n45\n", "\nforty\n", "version: must be a whole number"),
        ("4.521529e+01", "wide", "a hash and seven numbers"),
        ("9.221097e+02", "-9.2", "times and runs > 0"),
        ("# not multiple-regression-base\n0", "# multiple-regression-base\n1", "multiple regression"),
        ("cea37d6d	409600         	1.097392e+07", "cea37d6d", "8 words"),
    ],
)
def test_damaged_codelet_is_refused_with_its_line(copy: Path, old: str, new: str, message: str) -> None:
    path = copy / "codelets" / "chol_model_potrf.mirage"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InvalidInputError, match=message) as caught:
        read_starpu(copy, "mirage")
    assert "chol_model_potrf.mirage, line" in str(caught.value)


def test_truncated_and_missing_files_are_refused(copy: Path) -> None:
    path = copy / "codelets" / "chol_model_potrf.mirage"
    path.write_text(path.read_text(encoding="utf-8")[:1200], encoding="utf-8")
    with pytest.raises(InvalidInputError):
        read_starpu(copy, "mirage")
    shutil.copy(FOLDER / "codelets" / path.name, path)
    (copy / "bus" / "mirage.latency").unlink()
    with pytest.raises(InvalidInputError, match="can be read"):
        read_starpu(copy, "mirage")
    (copy / "bus" / "mirage.latency").write_text("# to 0\nnan\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="rows of numbers"):
        read_starpu(copy, "mirage")
