"""Machines as JSON: what is read is what was written."""

import json
from dataclasses import replace

import pytest

from hybrid_scheduler import InvalidInputError, Slowdown, SlowedPhysics, TablePhysics, platform_named
from hybrid_scheduler.cluster import Machine, Noise
from hybrid_scheduler.core import Objective
from hybrid_scheduler.physics import AnalyticPhysics, SerialPhysics
from hybrid_scheduler.profiling import calibrate, profile_named

SLOWED = SlowedPhysics(AnalyticPhysics(launch_overhead=0.1), Slowdown("gpu_1", 3.0, start=20.0, until=40.0))
MACHINES = {
    "default": Machine(),
    "serial": Machine(physics=SerialPhysics()),
    "slowed": Machine(platform_named("cluster-1000"), SLOWED, Noise(0.2, 7), "page", objective=Objective(1, 2, 3)),
    "profiled": Machine(physics=calibrate(profile_named("h200")).physics),
}


@pytest.mark.parametrize("name", MACHINES)
def test_machine_is_read_back_from_its_json(name):
    document = json.loads(json.dumps(MACHINES[name].as_json(), allow_nan=False))
    assert Machine.from_json(document) == MACHINES[name]
    assert Machine.from_json({**document, "noise": 0.5}) == replace(MACHINES[name], noise=Noise(0.5))


def test_table_keeps_its_seconds():
    table = Machine(physics=TablePhysics([[1.0, 2.0]]))
    assert Machine.from_json(table.as_json()).as_json() == table.as_json()


def test_unknown_physics_is_refused():
    class Own:
        name = "own"

    with pytest.raises(InvalidInputError, match="one of analytic, serial, profiled, table"):
        Machine(physics=Own()).as_json()
