"""Settings: the order of the layers, and the message for each error."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hybrid_scheduler import InvalidInputError
from hybrid_scheduler.config import (
    FIELDS,
    SHORT_VARIABLES,
    VARIABLES,
    Settings,
    SeveralProblemsError,
    load_settings,
)
from hybrid_scheduler.physics import SerialPhysics

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without config.yaml and .env."""
    monkeypatch.chdir(tmp_path)


def load(text: str | None = None, overrides: dict[str, Any] | None = None, **environ: str) -> Settings:
    if text is not None:
        Path("config.yaml").write_text(text, encoding="utf-8")
    return load_settings(None, overrides, environ)


def problems(text: str | None = None, overrides: dict[str, Any] | None = None, **environ: str) -> list[str]:
    """The messages, each with its hint behind a bar."""
    with pytest.raises((InvalidInputError, SeveralProblemsError)) as caught:
        load(text, overrides, **environ)
    error = caught.value
    assert error.exit_code == 2
    found = error.problems if isinstance(error, SeveralProblemsError) else [error]
    return [f"{problem} | {problem.hint}" if problem.hint else str(problem) for problem in found]


# ---------------------------------------------------------------- the files of the repository


def test_config_yaml_holds_every_key_with_its_default() -> None:
    path = ROOT / "config.yaml"
    assert load_settings(path, environ={}) == Settings()
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    written = {
        f"{section}.{key}" if isinstance(keys, dict) else section
        for section, keys in content.items()
        for key in (keys if isinstance(keys, dict) else [None])
    }
    assert written == set(FIELDS)


def test_env_example_names_real_variables_and_sets_none() -> None:
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    active = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert set(active) == set(SHORT_VARIABLES)
    assert not any(active.values())
    examples = dict(line[2:].split("=", 1) for line in lines if line.startswith("# HYBRID_"))
    assert load(**{**active, **examples}) != Settings()


# ---------------------------------------------------------------- layers


def test_no_input_gives_defaults() -> None:
    assert load() == Settings()
    assert load("") == load("simulation:\n") == load("# nothing\n") == Settings()


def test_each_layer_overrides_the_one_below() -> None:
    text = "simulation: {seed: 1, num_gpus: 1, tasks: 1, retrain_interval: 1}"
    Path(".env").write_text("NUM_GPUS=2\nRETRAIN_INTERVAL=2\nHYBRID_SIMULATION__TASKS=2\n", encoding="utf-8")
    settings = load(text, {"simulation.tasks": "4"}, RETRAIN_INTERVAL="3", HYBRID_SIMULATION__TASKS="3")
    chosen = settings.simulation
    assert (chosen.seed, chosen.num_gpus, chosen.retrain_interval, chosen.tasks) == (1, 2, 3, 4)


def test_long_variable_overrides_the_short_one() -> None:
    settings = load(NUM_GPUS="1", HYBRID_SIMULATION__NUM_GPUS="2")
    assert settings.simulation.num_gpus == 2


def test_database_of_a_higher_layer_replaces_the_lower_ones() -> None:
    Path("config.yaml").write_text("storage:\n  database_url: postgresql://file/d\n  postgres_host: other\n")
    assert load().storage.address().host == "file"
    assert load(POSTGRES_HOST="variable").storage.address().host == "variable"
    assert load(HYBRID_STORAGE__SQLITE_FILE="mine.db").storage.address().path == Path("mine.db")
    assert load(DATABASE_URL="sqlite:///mine.db", POSTGRES_HOST="variable").storage.address().is_sqlite
    option = {"storage.postgres_host": "option"}
    assert load(None, option, DATABASE_URL="postgresql://variable/d").storage.address().host == "option"
    Path(".env").write_text("POSTGRES_HOST=dotenv\n")
    assert load().storage.address().host == "dotenv"


def test_empty_variable_is_ignored() -> None:
    assert load(NUM_GPUS="", HYBRID_SIMULATION__SEED="") == Settings()


def test_variables_of_other_programs_are_ignored() -> None:
    assert load(SEED="x", TASKS="y", PATH="/bin") == Settings()


def test_folder_of_the_executor_is_no_setting() -> None:
    assert load(HYBRID_SCHEDULER_CACHE="/somewhere") == Settings()


def test_every_key_can_be_set_by_a_variable() -> None:
    sample = {
        "environment": "test",
        "simulation.scenario": "mixed",
        "simulation.utilisation": "0.5",
        "simulation.platform": "laptop",
        "simulation.memory_policy": "fail",
        "simulation.schedulers": "greedy, oracle(grid=21)",
        "workload.size_range": "1,2",
        "workload.intensity_range": "[0, 0.5]",
        "workload.memory_range": "3, 4",
        "physics.name": "serial",
        "physics.slowdown": "device=gpu,factor=2,start=1,until=3",
        "physics.count_rent": "no",
        "physics.count_electricity": "false",
        "live.repeat": "true",
        "logging.level": "debug",
        "logging.file": "x.log",
        "logging.rotation": "1 GB",
        "server.rate_limit": "9/second",
        "server.warm_whatif": "yes",
        "server.write_rate_limit": "9/hour",
        "server.allowed_hosts": "a.example, b.example",
    }
    given = {name: sample.get(key, "7") for name, key in VARIABLES.items()}
    settings = load(**given)
    assert settings.simulation.schedulers == ("greedy", "oracle(grid=21)")
    assert settings.workload.intensity_range == (0.0, 0.5)
    assert settings.logging.level == "DEBUG"
    assert settings.physics.count_rent is False
    assert settings.server.allowed_hosts == ("a.example", "b.example")
    changed = settings.model_dump()
    for key in FIELDS:
        section, _, name = key.partition(".")
        default = Settings().model_dump()[section]
        assert (changed[section][name] if name else changed[section]) != (default[name] if name else default), key


def test_secrets_are_not_printed() -> None:
    settings = load(API_TOKEN="s3cret", POSTGRES_PASSWORD="s3cret", DATABASE_URL="postgresql://a:s3cret@h/d")
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in str(settings.model_dump())
    assert problems("server: {token: [s3cret]}") == [
        "config.yaml:1: server.token: must be a text that is not shown, got 'something else'"
    ]


def test_environment_is_read_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUM_GPUS", "9")
    assert load_settings().simulation.num_gpus == 9


def test_settings_build_platform_physics_and_objective() -> None:
    settings = load(
        "simulation: {num_gpus: 2, memory_per_gpu: 500}\n"
        "physics: {name: serial, launch_overhead: 0.1, coefficient: 1e-5, dollars_per_kwh: 0.3}\n"
        "objective: {energy: 3}\n"
    )
    machine = settings.simulation.build_platform()
    assert [device.memory for device in machine.devices[1:]] == [500, 500]
    assert settings.physics.build_model() == SerialPhysics(1e-5, 0.1)
    assert settings.physics.tariff().dollars_per_kwh == 0.3
    assert settings.objective.weights().energy == 3
    assert load("simulation: {platform: laptop}").simulation.build_platform().name == "laptop"


# ---------------------------------------------------------------- mistakes


def test_missing_file_is_an_error_only_if_named() -> None:
    with pytest.raises(InvalidInputError, match=r"--config: must be a file that exists, got 'no\.yaml'"):
        load_settings("no.yaml", environ={})


WHOLE = "must be a whole number from 0 to"
RANGE = "must be two numbers [low, high] with"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("worklod: {}", "key: must be a known one, got 'worklod' | did you mean 'workload'?"),
        ("simulation: 4", "simulation: must be a section with keys, got 4"),
        ("simulation: {seed: 1, seed: 2}", "simulation.seed: must be given once, got 'a second value'"),
        ("simulation: {seed: yes}", f"simulation.seed: {WHOLE} 2^53, got True"),
        ("simulation: {seed: 1.5}", f"simulation.seed: {WHOLE} 2^53, got 1.5"),
        ("simulation: {num_gpus: -1}", f"simulation.num_gpus: {WHOLE} 10000, got -1"),
        ("simulation: {utilisation: 0}", "simulation.utilisation: must be a finite number > 0, or null, got 0"),
        ("simulation: {memory_per_gpu: .inf}", "simulation.memory_per_gpu: must be a finite number > 0, got inf"),
        (
            "simulation: {schedulers: []}",
            "simulation.schedulers: must be a list of schedulers, or all, or null, got []",
        ),
        (
            "simulation: {schedulers: [greedy, greedy]}",
            "simulation.schedulers: must be different schedulers, got 'greedy, greedy'",
        ),
        (
            "simulation: {schedulers: [round_robin(variant=hlf)]}",
            "simulation.schedulers: variant: must be one of gpu-cpu, half, published, got 'hlf'"
            " | did you mean 'half'?",
        ),
        (
            "simulation: {memory_policy: clp}",
            "simulation.memory_policy: must be one of clip, fail, page, to_cpu, got 'clp' | did you mean 'clip'?",
        ),
        (
            "physics: {name: srial}",
            "physics.name: must be one of analytic, profiled:FILE, serial, table:FILE, got 'srial' "
            "| did you mean 'serial'?",
        ),
        ("physics: {count_rent: maybe}", "physics.count_rent: must be true or false, got 'maybe'"),
        ("workload: {size_range: [2, 1]}", f"workload.size_range: {RANGE} 0 < low <= high, got [2, 1]"),
        ("workload: {size_range: [-1, -2]}", f"workload.size_range: {RANGE} 0 < low <= high, got [-1, -2]"),
        ("workload: {intensity_range: 3}", f"workload.intensity_range: {RANGE} 0 <= low <= high <= 1, got 3"),
        ("objective: {latency: 0}", "objective.latency: must be at least one weight above 0, got 'all weights 0'"),
        (
            "logging: {level: inf}",
            "logging.level: must be one of critical, debug, error, info, success, trace, warning, got 'inf'"
            " | did you mean 'info'?",
        ),
        ("logging: {rotation: weekly}", "logging.rotation: must be a file size such as \"10 MB\", got 'weekly'"),
        ("environment: ''", "environment: must be a text that is not empty, got ''"),
        (
            "simulation: [",
            "configuration: must be valid YAML, got \"expected the node content, but found '<stream end>'\"",
        ),
    ],
)
def test_error_in_the_file_is_explained(text: str, message: str) -> None:
    assert problems(text) == [f"config.yaml:1: {message}"]


def test_file_of_too_many_levels_is_refused() -> None:
    assert problems("simulation: " + "[" * 2000) == [
        "config.yaml: configuration: must be valid YAML, got 'too many levels'"
    ]


def test_number_of_thousands_of_digits_is_refused() -> None:
    (only,) = problems("simulation: {num_gpus: " + "9" * 5000 + "}")
    assert only.startswith("config.yaml: configuration: must be valid YAML, got 'Exceeds the limit")


def test_error_names_its_line() -> None:
    assert problems("\nsimulation:\n  num_gpu: 4\n") == [
        "config.yaml:3: key: must be a known one of section simulation, got 'simulation.num_gpu'"
        " | did you mean 'simulation.num_gpus'?"
    ]


def test_file_without_mapping_is_an_error() -> None:
    assert problems("- 1\n- 2") == ["config.yaml: configuration: must be a mapping of sections, got [1, 2]"]


@pytest.mark.parametrize(
    ("key", "name", "nearest"),
    [("scenario", "mixd", "mixed"), ("platform", "laptp", "laptop"), ("schedulers", "gredy", "greedy")],
)
def test_unknown_name_lists_the_known_ones(key: str, name: str, nearest: str) -> None:
    (message,) = problems(f"simulation:\n  {key}: {name}")
    assert message.startswith(f"config.yaml:2: simulation.{key}: must be one of ")
    assert message.endswith(f", got '{name}' | did you mean '{nearest}'?")


def test_error_in_a_variable_names_the_variable() -> None:
    assert problems(NUM_GPUS="four") == [
        "environment: NUM_GPUS: must be a whole number from 0 to 10000, got 'four'"
    ]
    Path(".env").write_text("HYBRID_SIMULATION__SEED=abc\n", encoding="utf-8")
    assert problems() == [".env: HYBRID_SIMULATION__SEED: must be a whole number from 0 to 2^53, got 'abc'"]


def test_unknown_long_variable_is_an_error() -> None:
    assert problems(HYBRID_SIMULATION__SEDE="1") == [
        "environment: variable: must be a known one, got 'HYBRID_SIMULATION__SEDE'"
        " | did you mean 'HYBRID_SIMULATION__SEED'?"
    ]


def test_error_on_the_command_line_names_the_option() -> None:
    with pytest.raises(InvalidInputError, match=r"^--seed: must be a whole number .*, got 'x'$"):
        load_settings(None, {"simulation.seed": "x"}, {}, option_names={"simulation.seed": "--seed"})


def test_unknown_override_is_an_error() -> None:
    (message,) = problems(None, {"simulation.sede": 1})
    assert message.endswith("got 'simulation.sede' | did you mean 'simulation.seed'?")


def test_all_errors_are_reported_at_once() -> None:
    text = "simulation:\n  tsks: 1\n  seed: -1\nworkload:\n  memory_range: [1]\n"
    assert [message.split(":")[1] for message in problems(text, NUM_GPUS="x")] == ["2", "3", " NUM_GPUS", "5"]


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None])
def test_unreadable_file_is_an_error(content: bytes | None) -> None:
    path = Path("config.yaml")
    path.mkdir() if content is None else path.write_bytes(content)
    (message,) = problems()
    assert message.startswith("configuration: must be a readable file, got 'config.yaml' | ")
