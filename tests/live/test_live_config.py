"""Configurations of live runs: checks and hash."""

import json

import pytest

from hybrid_scheduler import AnalyticPhysics, InvalidInputError, Noise, workstation
from hybrid_scheduler.core.canonical_json import content_hash
from hybrid_scheduler.live import LiveConfig


def test_invalid_configurations_are_refused():
    for changes, message in [
        ({"schedulers": ("heft",)}, "schedulers: must be online and central schedulers"),
        ({"schedulers": ("lpt",)}, "schedulers: must be online and central schedulers"),
        ({"schedulers": ()}, "schedulers: must be at least one name"),
        ({"schedulers": ("greedy", "greedy")}, "schedulers: must be different names"),
        ({"schedulers": ("gredy",)}, "scheduler: must be one of"),
        ({"speed": 0.0}, "speed"),
        ({"speed": 20_000.0}, "speed: must be a number from 0.01 to 10000"),
        ({"utilisation": -1.0}, "utilisation"),
        ({"seed": -1}, "seed"),
        ({"memory_policy": "swap"}, "memory_policy"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            LiveConfig(**changes)


def test_hash_depends_on_everything_that_determines_rows():
    one = LiveConfig()
    json.dumps(one.as_dict(), allow_nan=False)
    assert content_hash(one.as_dict()) == content_hash(LiveConfig().as_dict())
    others = [
        LiveConfig(seed=1),
        LiveConfig(platform=workstation(2)),
        LiveConfig(physics=AnalyticPhysics(launch_overhead=0.1)),
        LiveConfig(noise=Noise(0.1)),
        LiveConfig(utilisation=0.2),
        LiveConfig(schedulers=("greedy",)),
    ]
    assert len({content_hash(config.as_dict()) for config in [one, *others]}) == 7
    assert content_hash(LiveConfig(speed=3.0).as_dict()) == content_hash(one.as_dict())  # speed changes no row
