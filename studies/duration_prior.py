"""Prior of the duration model that ships with the package: what learned weights have in common on many machines.

    python -m studies.duration_prior            writes src/hybrid_scheduler/models/durations_prior.json, a minute

The learner runs from nothing on presets and on random machines (1 to 16 GPUs, speed-up slopes 0.5 to 6, links
of 4 to 64 GB/s), analytic physics, mixed tasks at load 0.6, seeds from 100 on. Its final weights are averaged over
machines: those of CPUs, and those of GPU classes. Deviations are the spread over machines, widened, because other
machines differ by more than these. It never sees the speed-up law.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from hybrid_scheduler.cluster import Cluster
from hybrid_scheduler.core import Floats, Platform
from hybrid_scheduler.core.atomic_files import write_atomically
from hybrid_scheduler.core.platform import platform_named, workstation
from hybrid_scheduler.learning.duration.duration_files import PRIOR_FORMAT, SHIPPED_PRIOR
from hybrid_scheduler.learning.duration.hierarchical_learner import HierarchicalLearner
from hybrid_scheduler.learning.duration.learner_state import FEATURES, KIND_FEATURES, DurationPrior, ModelState
from hybrid_scheduler.workload.scenarios import generate, scenario_named

from .learning_cases import random_platform

_TASKS, _LOAD, _FIRST_SEED = 1000, 0.6, 100
#: First of the random machines; the cases of other studies are draws below 100.
_FIRST_DRAW = 1000
#: Least standard deviations: of what all devices have in common, of a kind of device, of a class.
_ALL = np.array([1.2, 0.25, 0.3, 0.1, 0.03, 0.3, 0.3])
_KIND = np.array([0.5, 0.08, 0.2, 0.04, 0.012, 0.2, 0.2])
_CLASS = np.array([0.5, 0.05, 0.2, 0.03, 0.01, 0.15, 0.15])
_WIDER = 1.3
_TRANSFER = 0.4


def learned(platform: Platform, seed: int) -> tuple[Floats, Floats]:
    """Return weights and transfer efficiency of every class, after a run from nothing."""
    work = generate(scenario_named("mixed"), _TASKS, seed, platform=platform, utilisation=_LOAD)
    learner = HierarchicalLearner()
    Cluster(platform).run(work, learner)
    return class_weights(learner.duration_model_.arrays)


def class_weights(state: ModelState) -> tuple[Floats, Floats]:
    """Return the weights of the features and the transfer efficiency by class, for the first task kind."""
    _, _, blocks, top, _, _ = state.layout.item()
    weights = np.zeros((len(state.link), FEATURES))
    for c in range(len(weights)):
        for block in (0, state.device_kind[c], state.device_class[c]):
            if block >= 0:
                weights[c] += state.weights[block * FEATURES : (block + 1) * FEATURES]
                at = top + block * KIND_FEATURES
                weights[c, :KIND_FEATURES] += state.weights[at : at + KIND_FEATURES]
    at = top + blocks * KIND_FEATURES
    transfer = state.weights[blocks * FEATURES : top] + state.weights[at : at + len(weights)]
    return weights, transfer


def train(machines: int) -> DurationPrior:
    """Return the prior by runs on this number of random machines and on the presets."""
    platforms = [workstation(), platform_named("laptop"), platform_named("mixed-gpus")]
    platforms += [random_platform(_FIRST_DRAW + draw) for draw in range(machines)]
    cpus: list[Floats] = []
    gpus: list[Floats] = []
    links: list[float] = []
    for number, platform in enumerate(platforms):
        weights, transfer = learned(platform, _FIRST_SEED + number)
        for device, own, efficiency in zip(platform.classes, weights, transfer, strict=True):
            (cpus if device.is_cpu else gpus).append(own)
            if not device.is_cpu:
                links.append(efficiency)
    cpu, gpu = np.mean(cpus, axis=0), np.mean(gpus, axis=0)
    common = (cpu + gpu) / 2.0
    kind = np.maximum(_WIDER * np.std(cpus, axis=0), _KIND)
    spread = np.maximum(_WIDER * np.std(gpus, axis=0), _CLASS)
    return DurationPrior(
        np.stack([common, _ALL]),
        {"cpu": np.stack([cpu - common, kind]), "gpu": np.stack([gpu - common, _KIND])},
        spread,
        np.array([np.mean(links), max(_WIDER * float(np.std(links)), _TRANSFER)]),
    )


def main() -> None:
    """Train and write the prior."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=24, help="random machines, beside the presets")
    parser.add_argument("--out", type=Path, default=SHIPPED_PRIOR, help="where the prior goes")
    options = parser.parse_args()
    prior = train(options.machines)
    assert prior.all_devices.shape == (2, FEATURES)
    trained_on = (
        f"{options.machines} random machines (1 to 16 GPUs, slopes 0.5 to 6, links 4 to 64 GB/s) and the presets "
        f"workstation, laptop and mixed-gpus; analytic physics, {_TASKS} mixed tasks each at load {_LOAD}"
    )
    values = {
        "format": PRIOR_FORMAT,
        "trained_on": trained_on,
        "all_devices": prior.all_devices.round(4).tolist(),
        "device_kinds": {kind: rows.round(4).tolist() for kind, rows in prior.device_kinds.items()},
        "device_class": prior.device_class.round(4).tolist(),
        "transfer": prior.transfer.round(4).tolist(),
    }
    write_atomically(options.out, (json.dumps(values, indent=1) + "\n").encode())
    print(options.out.read_text())


if __name__ == "__main__":
    main()
