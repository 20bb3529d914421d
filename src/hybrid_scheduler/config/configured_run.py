"""The live run that the settings describe, with the slowdown of the default run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cluster import Machine
from ..live import LiveConfig
from ..live.live_config import LIVE_SCHEDULERS, LiveTrace
from ..physics import Slowdown
from ..schedulers import schedulers
from ..workload import Scenario, capacity_of
from ..workload.arrivals import WaveArrivals
from ..workload.scenarios import LIVE_SCENARIO
from ..workload.trace_files import find_trace
from .value_types import ALL_SCHEDULERS

if TYPE_CHECKING:
    from .sections import Settings

#: Slowdown of the default run, once in the calm of every wave: kind of device, factor, and shares of a wave. It is
#: about all GPUs, because learners know durations by class of device: one slow GPU would only blur its class.
_WAVE_SLOWDOWN = ("gpu", 3.0, 0.42, 0.67)


def machine_fields(machine: Machine) -> dict[str, Any]:
    """Return the fields of a machine by name, as `LiveConfig` takes them."""
    return {part.name: getattr(machine, part.name) for part in fields(machine)}


def configured_run(settings: Settings, traces: Path) -> LiveConfig:
    """Return the run that the settings describe; `traces` is the folder of named traces."""
    chosen = settings.simulation
    machine = settings.machine(noise_seed=chosen.seed)
    names = chosen.schedulers or LIVE_SCHEDULERS
    if names == (ALL_SCHEDULERS,):
        names = tuple(name for name, info in schedulers().items() if info.protocol in ("online", "central"))
    live = settings.live
    trace = None
    if live.trace:
        path = find_trace(live.trace, traces)
        trace = LiveTrace.read(path, machine.platform, machine.physics, repeat=live.repeat, load=live.trace_load)
    scenario = settings.scenario(chosen.scenario or LIVE_SCENARIO)
    tells_story = chosen.scenario is None and trace is None and settings.physics.slowdown == ""
    return LiveConfig(
        scenario=scenario,
        utilisation=chosen.utilisation,
        seed=chosen.seed,
        speed=settings.live.speed,
        schedulers=names,
        **machine_fields(machine),
        retrain_interval=chosen.retrain_interval,
        update_every=settings.live.update_interval,
        trace=trace,
        trace_folder=traces,
        slowdown=wave_slowdown(scenario, chosen.utilisation, machine) if tells_story else None,
    )


def wave_slowdown(scenario: Scenario, load: float | None, machine: Machine) -> Slowdown | None:
    """Return the slowdown of the default run; None for a scenario without waves or a machine without GPUs.

    Parameters
    ----------
    scenario
        The scenario; each of its waves has one slowdown.
    load
        Offered load, which sets the length of a wave; None means the scenario's own.
    machine
        The machine.
    """
    kind, factor, start, until = _WAVE_SLOWDOWN
    if scenario.arrivals != "waves" or kind not in [device.kind for device in machine.platform.devices]:
        return None
    rate = (load or scenario.utilisation) * capacity_of(scenario, machine.platform, machine.physics)
    wave = WaveArrivals.LENGTH / rate
    return Slowdown(kind, factor, round(start * wave, 1), round(until * wave, 1), round(wave, 2))
