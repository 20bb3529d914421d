"""The published formulas, and the closed form against a fine grid."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hybrid_scheduler import (
    AnalyticPhysics,
    InvalidInputError,
    SerialPhysics,
    TablePhysics,
    Task,
    Workload,
    platform_named,
    workstation,
)
from hybrid_scheduler.physics import Tariff, dollars_per_second, isolated_time, objective_scales, optimal_fraction

seconds = st.floats(1e-4, 50)


def one(size, intensity, memory):
    return Workload.from_tasks([Task(0, size, intensity, memory)])


def test_reference_task_takes_half_a_second():
    table = AnalyticPhysics().times(one(2500, 0.5, 160), workstation(1))
    assert table[0, 0] == pytest.approx([0.5, 0.0])
    assert table[0, 1] == pytest.approx([0.5 / 2.5 + 0.01, 0.0])


def test_launch_overhead_is_the_fixed_part_of_accelerators_only():
    table = AnalyticPhysics(launch_overhead=0.03).times(one(2500, 0.5, 0), workstation(1))
    assert table[0, :, 1].tolist() == [0.0, 0.03]


def test_unequal_accelerators_have_their_own_columns():
    platform = platform_named("accelerators")
    physics = AnalyticPhysics()
    table = physics.times(one(2500, 1.0, 800), platform)[0, physics.columns(platform), 0]
    base = 1 / 3  # 4e-6 * 125000 / 1.5
    for device, got in zip(platform.devices, table, strict=True):
        transfer = 0 if device.is_cpu else 800 / device.bandwidth
        assert got == pytest.approx(base / (device.speedup_base + device.speedup_slope) + transfer), device.name


@given(cpu=seconds, gpu=seconds, launch=st.sampled_from([0.0, 0.01, 1.0, 60.0]))
def test_closed_form_beats_a_fine_grid(cpu, gpu, launch):
    c, g = np.array([cpu]), np.array([gpu])
    best = isolated_time(optimal_fraction(c, g, launch), c, g, launch)[0]
    grid = np.linspace(0, 1, 2001)
    times = isolated_time(grid, c, g, launch)
    assert best <= times.min() * (1 + 1e-12)
    assert best >= times.min() - (cpu + gpu) / 2000  # and it is one of the times that can be had


@given(cpu=seconds, gpu=seconds)
def test_serial_time_is_the_sum_and_its_optimum_is_a_side(cpu, gpu):
    c, g = np.array([cpu]), np.array([gpu])
    times = isolated_time(np.linspace(0, 1, 101), c, g, concurrent=False)
    assert times.min() == pytest.approx(min(cpu, gpu))
    assert isolated_time(0.25, c, g, concurrent=False)[0] == pytest.approx(0.75 * cpu + 0.25 * gpu)


def test_serial_physics_has_the_same_parts():
    workload = one(2500, 0.5, 160)
    np.testing.assert_array_equal(
        SerialPhysics().times(workload, workstation()), AnalyticPhysics().times(workload, workstation())
    )
    assert not SerialPhysics().concurrent


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coefficient": 0}, "physics.coefficient: must be finite and > 0, got 0"),
        ({"coefficient": float("nan")}, "physics.coefficient: must be finite and > 0, got nan"),
        ({"launch_overhead": -1}, "physics.launch_overhead: must be finite and >= 0 s, got -1"),
    ],
)
def test_bad_constants_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message.replace("(", r"\(")):
        AnalyticPhysics(**arguments)


def test_table_physics_by_task_id():
    workload = Workload.from_tasks([Task(7, 1, 0, 0), Task(3, 1, 0, 0)])
    table = TablePhysics([[1, 2], [3, 4]], task_ids=[3, 7]).times(workload, workstation(1))
    assert table[:, :, 0].tolist() == [[3, 4], [1, 2]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TablePhysics([1, 2]), "a matrix of task x device seconds"),
        (lambda: TablePhysics([[1, float("inf")]]), r"physics.table\[0, 1\]: must be finite and >= 0 s, got inf"),
        (lambda: TablePhysics([[1, 2]], task_ids=[1, 2]), "one id per row"),
        (lambda: TablePhysics([[1, 2]]).columns(workstation(2)), r"one column per device \(3\), got '2 columns'"),
        (lambda: TablePhysics([[1, 2]]).times(one(1, 0, 0).rows(0, 1), workstation(1)), None),
        (
            lambda: TablePhysics([[1, 2]], task_ids=[9]).times(one(1, 0, 0), workstation(1)),
            "task_id: must be in the physics table, got 0",
        ),
    ],
)
def test_bad_tables_are_refused(make, message):
    if message is None:
        make()
    else:
        with pytest.raises(InvalidInputError, match=message):
            make()


def test_payoff_scales_by_hand():
    # One task, CPU 1 s, GPU 0.25 s. Time optimum: f = 0.8, 0.2 s, energy 30*0.2 + 50*0.2 = 16 J.
    # Energy optimum: GPU, 0.25 s, 12.5 J. Rent alone: GPU 2.5e-5 $, CPU 2e-5 $: cost optimum is the CPU, 1 s, 30 J.
    table = np.array([[[1.0, 0.0], [0.25, 0.0]]])
    dollars = dollars_per_second(workstation(1), Tariff(electricity=False))
    scales = objective_scales(table, np.array([0, 1]), workstation(1), dollars)
    assert scales.seconds == pytest.approx(1.0 - 0.2)
    assert scales.joules == pytest.approx(30 - 12.5)
    assert scales.dollars == pytest.approx(2.5e-5 - 2e-5)
