"""Curves through measured points, and the physics made of them."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.core import Device, InvalidInputError, Platform, Task, UnknownNameError, Workload, cpu
from hybrid_scheduler.physics import Curve, ProfiledPhysics
from hybrid_scheduler.schedulers import create

SIZES = (64.0, 256.0, 1024.0, 4096.0)
PHYSICS = ProfiledPhysics(
    (
        Curve("sort", "cpu", SIZES, tuple(1e-8 * n**2 for n in SIZES)),
        Curve("sort", "gpu", SIZES, tuple(2e-5 + 1e-10 * n**2 for n in SIZES), fixed=2e-5, spread=0.1),
        Curve("fft", "cpu", SIZES, tuple(1e-9 * n**2 for n in SIZES)),
        Curve("fft", "gpu", (256.0,), (1e-4,), fixed=1.0),
    )
)
MACHINE = Platform("m", (cpu(), Device("gpu_0"), Device("gpu_1")))


def _workload(*tasks: tuple[str, float]) -> Workload:
    return Workload.from_tasks(Task(i, size, 0.5, 1.0, kind=kind) for i, (kind, size) in enumerate(tasks))


def test_times_at_and_between_measured_sizes() -> None:
    table = PHYSICS.times(_workload(("sort", 256.0), ("sort", 512.0), ("fft", 512.0)), MACHINE)
    assert table.shape == (3, 2, 2)
    assert table[:, 0, 0] == pytest.approx([1e-8 * 256**2, 1e-8 * 512**2, 1e-9 * 512**2])
    assert table[0, 1].sum() == pytest.approx(2e-5 + 1e-10 * 256**2)
    assert table[0, 1, 1] == pytest.approx(min(2e-5, 0.9 * table[0, 1].sum()))


def test_beyond_the_measured_sizes_the_end_slope_goes_on() -> None:
    curve = PHYSICS.curve("sort", "cpu")
    assert curve.at(np.array([16.0, 16384.0])) == pytest.approx([1e-8 * 16**2, 1e-8 * 16384**2])


def test_falling_ends_do_not_go_on_falling() -> None:
    curve = Curve("x", "cpu", (10.0, 20.0, 40.0), (2.0, 1.0, 3.0))
    assert curve.at(np.array([1.0]))[0] == pytest.approx(2.0)


def test_one_measurement_grows_as_the_data_does() -> None:
    assert PHYSICS.curve("fft", "gpu").at(np.array([512.0]))[0] == pytest.approx(4e-4)


def test_a_launch_never_takes_longer_than_the_whole() -> None:
    whole, fixed = PHYSICS.times(_workload(("fft", 256.0)), MACHINE)[0, 1]
    assert fixed == pytest.approx(0.9e-4)
    assert whole + fixed == pytest.approx(1e-4)


@given(st.lists(st.floats(-8, 2), min_size=2, max_size=9), st.floats(0, 1))
def test_never_outside_its_neighbours(logs: list[float], where: float) -> None:
    sizes = tuple(float(2 ** (4 + i)) for i in range(len(logs)))
    curve = Curve("x", "cpu", sizes, tuple(np.exp(logs).tolist()))
    at = np.exp(np.log(sizes[0]) + where * np.log(sizes[-1] / sizes[0]))
    right = min(max(int(np.searchsorted(sizes, at)), 1), len(sizes) - 1)
    low, high = sorted((curve.seconds[right - 1], curve.seconds[right]))
    assert low * (1 - 1e-9) <= curve.at(np.array([at]))[0] <= high * (1 + 1e-9)


@pytest.mark.parametrize("size", [16.0, 64.0, 100.0, 256.0, 999.0, 4096.0, 20000.0])
def test_a_row_is_a_row_of_the_table(size: float) -> None:
    for kind in ("sort", "fft"):
        row = PHYSICS.row(kind, size, MACHINE)
        assert row == pytest.approx(PHYSICS.times(_workload((kind, size)), MACHINE)[0], rel=1e-12)


def test_unknown_kinds_and_devices_are_named() -> None:
    with pytest.raises(UnknownNameError, match="one of fft, sort") as caught:
        PHYSICS.times(_workload(("sorting", 64.0)), MACHINE)
    assert caught.value.nearest == "sort"
    tpu = Platform("m", (cpu(), Device("tpu_0", "tpu")))
    with pytest.raises(InvalidInputError, match=r"one it was measured on \(cpu, gpu\)"):
        PHYSICS.times(_workload(("sort", 64.0)), tpu)


def test_pickles_and_goes_through_json() -> None:
    assert pickle.loads(pickle.dumps(PHYSICS)) == PHYSICS
    assert hash(pickle.loads(pickle.dumps(PHYSICS))) == hash(PHYSICS)
    assert ProfiledPhysics.from_dict(json.loads(json.dumps(PHYSICS.as_dict()))) == PHYSICS


@pytest.mark.parametrize("document", [{}, {"curves": [{"kind": "x"}]}, {"curves": 3}, {"curves": []}])
def test_bad_documents_are_refused(document: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        ProfiledPhysics.from_dict(document)


@pytest.mark.parametrize(
    "values",
    [((), ()), ((1.0,), (1.0, 2.0)), ((2.0, 1.0), (1.0, 2.0)), ((1.0, 2.0), (0.0, 1.0)), ((1.0,), (float("nan"),))],
)
def test_bad_curves_are_refused(values: tuple[tuple[float, ...], tuple[float, ...]]) -> None:
    with pytest.raises(InvalidInputError):
        Curve("x", "cpu", *values)


def test_duplicate_curve_is_refused() -> None:
    curve = Curve("x", "cpu", (1.0,), (1.0,))
    with pytest.raises(InvalidInputError, match="one for each kind"):
        ProfiledPhysics((curve, curve))


def test_cluster_runs_on_profiled_physics() -> None:
    workload = _workload(*[("sort", 256.0 * (1 + i % 7)) for i in range(40)])
    result = Cluster(MACHINE, PHYSICS).run(workload, create("earliest_finish"))
    assert result.outcomes.completed.all()
