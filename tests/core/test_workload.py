"""A workload refuses what it cannot mean, and says which task, which field, what is allowed and what came."""

import numpy as np
import pytest

from hybrid_scheduler import (
    Device,
    InvalidInputError,
    Objective,
    Platform,
    Task,
    UnknownNameError,
    Workload,
    platform_named,
)
from hybrid_scheduler.core import cpu


def columns(n=3, **changes):
    base = {
        "task_id": np.arange(n),
        "size": np.full(n, 100.0),
        "compute_intensity": np.full(n, 0.5),
        "memory_required": np.full(n, 10.0),
        "arrival_time": np.arange(n, dtype=float),
    }
    return base | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": [1, -3, 1]}, "task 1 (row 1): size: must be finite and > 0, got -3.0"),
        ({"size": [1, 0, 1]}, "size: must be finite and > 0, got 0.0"),
        ({"size": [1, 1, np.nan]}, "task 2 (row 2): size: must be finite and > 0, got nan"),
        ({"size": [1, 1, np.inf]}, "size: must be finite and > 0, got inf"),
        ({"size": ["a", 1, 1]}, "size: must be a column of numbers"),
        ({"size": [1, 1]}, "size: must be one value per task (3), got 'shape (2,)'"),
        ({"compute_intensity": [0, 1, 1.01]}, "compute_intensity: must be a number in [0, 1], got 1.01"),
        ({"compute_intensity": [-0.1, 0, 0]}, "compute_intensity: must be a number in [0, 1], got -0.1"),
        ({"memory_required": [0, -1, 0]}, "memory_required: must be finite and >= 0, got -1.0"),
        ({"arrival_time": [0, 2, 1]}, "task 2 (row 2): arrival_time: must be sorted: not before the previous"),
        ({"arrival_time": [-1, 2, 3]}, "arrival_time: must be finite and >= 0, got -1.0"),
        ({"task_id": [1, 2, 1]}, "row 2: task_id: must be unique, got 1"),
        ({"task_id": [1, 2, np.nan]}, "task_id: must be a whole number, present for every task, got nan"),
        ({"task_id": [1, 2, 2.5]}, "task_id: must be a whole number, present for every task, got 2.5"),
        (
            {"dependencies": [[], [7], []]},
            "task 1 (row 1): dependencies: must be ids of tasks in this workload, got 7",
        ),
        ({"dependencies": [[1], [0], []]}, "dependencies: must be free of cycles, got 'a cycle through task 0'"),
        ({"dependencies": [[], [1], []]}, "dependencies: must be free of cycles, got 'a cycle through task 1'"),
        ({"dependencies": [[]]}, "dependencies: must be one list per task (3)"),
        ({"dependencies": [[], [0], []], "dependency_data": [[], [-1.0], []]}, "dependency_data: must be finite"),
        (
            {"dependencies": [[], [0], []], "dependency_data": [[1.0], [], []]},
            "dependency_data: must be one value per",
        ),
        ({"task_id": ["1", "2", "3"]}, "task_id: must be whole numbers"),
        (
            {"task_id": np.array([1, 2, 2**63], dtype=np.uint64)},
            "task_id: must be below 2^63, got 9223372036854775808",
        ),
        ({"size": ["1", "2", "3"]}, "size: must be a column of numbers"),
        ({"kind": ["a", "b"]}, "kind: must be one value per task (3)"),
    ],
)
def test_bad_columns_are_refused_with_a_reason(changes, message):
    with pytest.raises(InvalidInputError) as error:
        Workload(**columns(**changes))
    assert message in str(error.value)


def test_empty_workload_is_refused():
    with pytest.raises(InvalidInputError, match="workload: must be at least one task, got 'no tasks'"):
        Workload.from_tasks([])


def test_tasks_and_columns_round_trip():
    tasks = [
        Task(5, 10.0, 0.1, 3.0, 0.0, (), "matmul", "a"),
        Task(9, 20.0, 0.2, 4.0, 1.0, (5,), "sort", None),
        Task(2**62, 30.0, 0.3, 5.0, 1.0, (5, 9), "matmul", "c"),
    ]
    assert list(Workload.from_tasks(tasks)) == tasks


def test_a_workload_cannot_be_changed_and_does_not_hold_on_to_its_input():
    size = np.full(3, 100.0)
    workload = Workload(**columns(size=size))
    size[0] = 1
    assert workload.size[0] == 100
    with pytest.raises(ValueError, match="read-only"):
        workload.size[0] = 1


def test_duration_estimate_is_the_base_duration():
    assert Task(0, 2500, 0.5, 0).duration_estimate == pytest.approx(0.5)
    assert Workload(**columns()).duration_estimate.tolist() == pytest.approx([0.004] * 3)


def test_topological_order_puts_parents_first():
    workload = Workload(**columns(dependencies=[[2], [], [1]], arrival_time=np.zeros(3)))
    assert workload.topological_order.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        ((Device("gpu_0"),), "platform.devices: must be a list with a CPU in it"),
        ((cpu(), Device("gpu_0", node=1)), "platform.nodes[1]: must be a node with a CPU, got 'none'"),
        ((cpu(), Device("cpu")), "device.name: must be unique in the platform, got 'cpu'"),
        ((cpu(), Device("g", memory=0)), "device g: device.memory: must be > 0, got 0"),
        ((cpu(), Device("g", bandwidth=float("nan"))), "device g: device.bandwidth: must be > 0, got nan"),
        ((cpu(), Device("g", watts=-1)), "device g: device.watts: must be finite and >= 0, got -1"),
        ((cpu(), Device("g", speedup_base=0)), "device g: device.speedup_base: must be > 0, got 0"),
        ((cpu("a", 0), cpu("b", 1), Device("g", node=0)), "device.node: must be listed node by node, got 0"),
    ],
)
def test_bad_platforms_are_refused_with_a_reason(devices, message):
    with pytest.raises(InvalidInputError) as error:
        Platform("bad", devices)
    assert message in str(error.value)


def test_nearest_name_is_suggested():
    with pytest.raises(UnknownNameError) as error:
        platform_named("workstaton")
    assert error.value.hint == "did you mean 'workstation'?"
    assert error.value.exit_code == 2
    assert "cluster-1000" in str(error.value)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"latency": -1}, "objective.latency: must be finite and >= 0, got -1"),
        ({"energy": float("inf")}, "objective.energy: must be finite and >= 0, got inf"),
        ({"latency": 0}, "objective: must be at least one weight above 0"),
    ],
)
def test_bad_objectives_are_refused(weights, message):
    with pytest.raises(InvalidInputError, match=message):
        Objective(**weights)
