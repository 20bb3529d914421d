"""Calibrations of profiles with known formulas, and errors for profiles that cannot be fitted."""

from dataclasses import replace

import numpy as np
import profile_examples
import pytest

from hybrid_scheduler.core import InvalidInputError
from hybrid_scheduler.profiling.calibration import calibrate, platform_of
from hybrid_scheduler.profiling.hardware_profile import ProfilePoint, builtin_profiles, profile_named
from hybrid_scheduler.profiling.kernels import KERNELS
from hybrid_scheduler.profiling.machine_info import THREAD_POOL


def test_known_formula_is_predicted_at_sizes_left_out() -> None:
    found = calibrate(profile_examples.profile())
    assert set(found.by_kind) == set(KERNELS)
    assert all(error is not None and error < 0.05 for error in found.by_kind.values())
    assert {(one.kind, one.device) for one in found.held_out} == {(k, d) for k in KERNELS for d in ("cpu", "gpu")}
    at = found.physics.curve("matmul", "gpu").at(np.array([1448.0]))[0]
    kernel = KERNELS["matmul"]
    moved = kernel.bytes_in(1448) + kernel.bytes_out(1448)
    assert at == pytest.approx(4e-6 + kernel.flops(1448) / 40e12 + 2e-5 + moved / 5e10, rel=0.05)


def test_transfers_differ_and_unmeasured_ones_fall_back() -> None:
    profile = profile_examples.profile()
    pinned, pageable = (calibrate(profile, transfer=transfer).physics for transfer in ("pinned", "pageable"))
    size = np.array([2048.0])
    assert pageable.curve("sort", "gpu").at(size)[0] > 2 * pinned.curve("sort", "gpu").at(size)[0]
    points = tuple(
        replace(p, gpu_seconds=replace(p.gpu_seconds, pinned=None)) for p in profile.points if p.gpu_seconds
    )
    assert calibrate(replace(profile, points=points)).physics == pageable
    with pytest.raises(InvalidInputError, match="pinned or pageable"):
        calibrate(profile, transfer="paged")


def test_gpu_time_is_summed_where_it_was_not_measured_as_a_whole() -> None:
    profile = profile_examples.profile()
    points = tuple(replace(point, gpu_seconds=None) for point in profile.points)
    whole = calibrate(profile).physics.curve("fft", "gpu")
    made = calibrate(replace(profile, points=points)).physics.curve("fft", "gpu")
    launch = profile.launch_overhead_seconds
    size = np.array([2048.0])
    assert made.at(size)[0] == pytest.approx(whole.at(size)[0] + (launch.median if launch else 0.0), rel=0.02)


def test_single_bad_point_changes_other_sizes_little() -> None:
    profile = profile_examples.profile(sizes=tuple(64 * 2**i for i in range(8)))
    at_512 = next(p for p in profile.of("matmul") if p.size == 512)
    assert at_512.cpu_seconds is not None
    bad = replace(at_512, cpu_seconds=profile_examples.timing(5 * at_512.cpu_seconds.median))
    points = tuple(bad if (p.kernel, p.size) == ("matmul", 512) else p for p in profile.points)
    curve = calibrate(replace(profile, points=points)).physics.curve("matmul", "cpu")
    good = calibrate(profile).physics.curve("matmul", "cpu")
    sizes = np.array([128.0, 2048.0])
    assert curve.at(sizes) == pytest.approx(good.at(sizes), rel=0.3)


def test_too_few_sizes_give_no_held_out_error() -> None:
    found = calibrate(profile_examples.profile(sizes=(64, 256)))
    assert set(found.by_kind.values()) == {None}
    assert found.as_dict()["held_out"][0]["median_error"] is None


def test_profile_without_times_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least one measured time"):
        calibrate(replace(profile_examples.profile(), points=(ProfilePoint("x", 1, 1, 1, None),)))


def test_platform_has_the_devices_of_the_profile() -> None:
    machine = platform_of(profile_examples.profile(), gpus=2)
    assert [device.name for device in machine.devices] == ["cpu", "gpu_0", "gpu_1"]
    assert machine.devices[1].watts == pytest.approx(300.0)
    assert machine.devices[1].bandwidth == pytest.approx(50_000, rel=0.1)
    pools = platform_of(profile_examples.profile(gpu=False))
    assert [(device.name, device.kind) for device in pools.devices] == [
        ("cpu_wide", "cpu"),
        ("cpu_narrow", THREAD_POOL),
    ]
    assert calibrate(profile_examples.profile(gpu=False)).physics.curve("sort", THREAD_POOL) is not None


@pytest.mark.parametrize("name", builtin_profiles())
def test_shipped_profiles_can_be_used(name: str) -> None:
    profile = profile_named(name)
    physics = calibrate(profile).physics
    for device in platform_of(profile).devices:
        for kind in profile.kernels:
            assert physics.curve(kind, device.kind).at(np.array([777.0]))[0] > 0


def test_shipped_profiles_are_listed_and_unknown_names_get_a_hint() -> None:
    assert builtin_profiles() == ["cpu_only", "h200", "starpu_mirage", "starpu_sirocco"]
    with pytest.raises(InvalidInputError, match="one of cpu_only") as caught:
        profile_named("h100")
    assert caught.value.hint == "did you mean 'h200'?"
