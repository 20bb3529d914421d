"""Commands that compute a stored run again."""

from __future__ import annotations

from shlex import quote
from typing import Any

from ..core import platform_named, workstation
from ..core.platform import PLATFORMS, platform_from_json
from ..physics import PHYSICS, SlowedPhysics, Tariff, full_speed, physics_from_json, physics_named
from ..workload.argument_checks import parse_spec

#: Most tasks of an evidence file.
_EVIDENCE_TASKS = 5_000
_LEARNERS = ("hybrid_ml", "rl_agent")


def replay_of(run: dict[str, Any], server: str) -> dict[str, Any] | None:
    """Return the commands that compute a run again, with what can differ; None for one that cannot be repeated.

    Parameters
    ----------
    run
        The stored run.
    server
        Address of this server, from which tasks and evidence are fetched.
    """
    config = run["config"]
    run_id = run["run_id"]
    if run["source"] != "simulated" or not {"platform", "physics", "scenario"} <= config.keys():
        return None
    notes = []
    exact = True
    plugins = {plugin["file"]: plugin["sha256"] for plugin in config.get("plugins", {}).values()}
    notes += [f"plug-in {name}, SHA-256 {digest[:16]}" for name, digest in sorted(plugins.items())]
    program = " ".join(["hybrid-scheduler", *(f"--plugin {quote(name)}" for name in sorted(plugins))])
    changes = config.get("changes", [])
    submitted = config.get("submitted", 0)
    notes += [f"from task {change['task']:,}: {change['change']}" for change in changes]
    if submitted:
        notes.append(f"tasks that clients sent: {submitted:,}")
    machine = _machine_options(config)
    commands = []
    options = f"--seed {config['seed']} --schedulers {quote(','.join(run['schedulers']))}"
    if machine is None:
        # Machines of a user's own are inside the evidence file.
        file = f"evidence-{run_id}.html"
        commands.append(f"curl -o {file} '{server}/api/runs/{run_id}/evidence?limit={_EVIDENCE_TASKS}'")
        commands.append(f"{program} report --verify {file}")
        if run["tasks"] > _EVIDENCE_TASKS:
            exact = False
            notes.append(f"the evidence file holds the newest {_EVIDENCE_TASKS:,} of {run['tasks']:,} tasks")
    else:
        prefix, flags = machine
        if changes or submitted:
            file = f"tasks-{run_id}.csv"
            commands.append(f"curl -o {file} '{server}/api/export/tasks.csv?run_id={run_id}'")
            source = f"--trace {file}"
        elif "trace" in config:
            trace = config["trace"]
            load = "" if trace["load"] is None else f" --utilisation {trace['load']}"
            source = f"--trace {quote(trace['name'])}{load}"
            notes.append(f"trace {trace['name']}, SHA-256 {trace['sha256'][:16]}")
        else:
            source = (
                f"--scenario {quote(run['scenario'])} --utilisation {run['load']} --tasks {max(1, run['tasks'])}"
            )
            if config["scenario"].get("then"):
                exact = False
                notes.append("the mix of tasks changes at another point there: the set-up repeats, not every task")
        if config["scenario"].get("episode_length"):
            exact = False
            notes.append("the live run empties its clusters between episodes; the command does not")
        commands.append(" ".join(filter(None, (f"{prefix}{program} simulate", source, options, flags))))
    if any(parse_spec(spec)[0] in _LEARNERS for spec in run["schedulers"]):
        notes.append("fixed rules repeat exactly; learners retrain by the clock and may differ slightly")
    return {"commands": commands, "exact": exact, "notes": notes}


def _machine_options(config: dict[str, Any]) -> tuple[str, str] | None:
    """Return environment and options of the command line for a run's machine; None if they cannot name it."""
    try:
        platform = platform_from_json(config["platform"])
        physics = physics_from_json(config["physics"])
        tariff = Tariff(**config["tariff"])
    except (KeyError, TypeError, ValueError):  # an incomplete record of another version
        return None
    flags = [f"--platform {quote(platform.name)}"]
    prefix = ""
    gpus = len(platform) - 1
    if platform.name not in PLATFORMS or tariff != Tariff():
        return None
    if platform_named(platform.name) != platform:
        memory = platform.devices[-1].memory
        if platform.name != "workstation" or platform != workstation(gpus, memory):
            return None
        prefix = f"NUM_GPUS={gpus} MEMORY_PER_GPU={memory:g} "
    slowdown = physics.slowdown if isinstance(physics, SlowedPhysics) else None
    physics = full_speed(physics)
    if physics.name not in PHYSICS or physics != physics_named(physics.name):
        return None
    if physics.name != "analytic":
        flags.append(f"--physics {physics.name}")
    if slowdown is not None:
        flags.append(f"--slowdown {quote(slowdown.as_text())}")
    if config["noise"]["sigma"]:
        flags.append(f"--noise {config['noise']['sigma']}")
    if config["memory_policy"] != "clip":
        flags.append(f"--memory-policy {config['memory_policy']}")
    weights = {name: weight for name, weight in config["objective"].items() if weight}
    if list(weights) != ["latency"]:
        flags.append("--objective " + ",".join(f"{name}={weight}" for name, weight in weights.items()))
    return prefix, " ".join(flags)
