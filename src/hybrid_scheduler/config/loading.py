"""Loading of settings, in the order command line > environment > .env > config.yaml > defaults.

`load_settings` reads once; the command line and the server pass plain values on. Every value keeps its source until
it has been checked, so that a message can name the file and line, the variable or the option that has to change.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from dotenv import dotenv_values
from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from ..core import HybridSchedulerError, InvalidInputError
from .sections import Settings
from .value_types import yaml_problem

CONFIG_FILE = Path("config.yaml")
_ENV_FILE = Path(".env")

#: Short variables for frequent settings; every key also has a long one, HYBRID_<SECTION>__<KEY>.
SHORT_VARIABLES = {
    "ENVIRONMENT": "environment",
    "NUM_GPUS": "simulation.num_gpus",
    "MEMORY_PER_GPU": "simulation.memory_per_gpu",
    "RETRAIN_INTERVAL": "simulation.retrain_interval",
    "DATABASE_URL": "storage.database_url",
    "POSTGRES_HOST": "storage.postgres_host",
    "POSTGRES_PORT": "storage.postgres_port",
    "POSTGRES_USER": "storage.postgres_user",
    "POSTGRES_PASSWORD": "storage.postgres_password",
    "POSTGRES_DB": "storage.postgres_db",
    "REDIS_HOST": "storage.redis_host",
    "REDIS_PORT": "storage.redis_port",
    "REDIS_PASSWORD": "storage.redis_password",
    "API_HOST": "server.host",
    "API_PORT": "server.port",
    "API_TOKEN": "server.token",
    "LOG_LEVEL": "logging.level",
    "LOG_FILE": "logging.file",
}
_LONG_PREFIX = "HYBRID_"
#: Variables with the same beginning that are no settings: the folder where the executor keeps run times.
_OTHER_VARIABLES = frozenset({"HYBRID_SCHEDULER_CACHE"})
#: Keys that each name a database. One in a higher layer replaces all in lower layers.
_DATABASE_KEYS = frozenset({"storage.database_url", "storage.postgres_host", "storage.sqlite_file"})


class SeveralProblemsError(HybridSchedulerError):
    """More than one setting is wrong; each problem is an error of its own."""

    exit_code = 2

    def __init__(self, problems: list[InvalidInputError]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def _fields() -> Iterator[tuple[str, FieldInfo]]:
    for name, field in Settings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from ((f"{name}.{key}", inner) for key, inner in kind.model_fields.items())
        else:
            yield name, field


#: Every key by its dotted path.
FIELDS = dict(_fields())
SECTIONS = frozenset(key.partition(".")[0] for key in FIELDS if "." in key)
VARIABLES = {_LONG_PREFIX + key.replace(".", "__").upper(): key for key in FIELDS}


@dataclass(frozen=True, slots=True)
class _Given:
    """An unchecked value. `name` is what the user has to change, and `where` the file or variable it is in."""

    value: Any
    name: str
    where: str | None = None


_Layer = dict[str, _Given]


def load_settings(
    config_file: str | os.PathLike[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    option_names: Mapping[str, str] | None = None,
) -> Settings:
    """Merge the layers of settings and check the result.

    Parameters
    ----------
    config_file
        File to read; without it ./config.yaml is read if it exists.
    overrides
        Values by dotted key, such as "simulation.seed".
    environ
        Environment variables; `os.environ` by default.
    option_names
        Command-line option of each override, for messages.

    Returns
    -------
    Settings
        Checked and complete.

    Raises
    ------
    InvalidInputError
        If one setting is wrong.
    SeveralProblemsError
        If several settings are wrong.
    """
    problems: list[InvalidInputError] = []
    names = option_names or {}
    layers: tuple[_Layer, ...] = (
        _from_file(config_file, problems),
        _from_variables(_read_env_file(), str(_ENV_FILE), problems),
        _from_variables(os.environ if environ is None else environ, "environment", problems),
        {key: _Given(value, names.get(key, key)) for key, value in (overrides or {}).items()},
    )
    given: _Layer = {}
    for layer in layers:
        if any(layer[key].value for key in _DATABASE_KEYS & layer.keys()):
            given = {key: setting for key, setting in given.items() if key not in _DATABASE_KEYS}
        given |= layer
    nested: dict[str, Any] = {}
    for key, setting in given.items():
        section, dot, name = key.partition(".")
        if dot:
            nested.setdefault(section, {})[name] = setting.value
        else:
            nested[section] = setting.value
    settings = None
    try:
        settings = Settings.model_validate(nested)
    except ValidationError as error:
        problems += _translated(error, given)
    if len(problems) == 1:
        raise problems[0]
    if settings is None or problems:
        raise SeveralProblemsError(problems)
    return settings


def _from_file(config_file: str | os.PathLike[str] | None, problems: list[InvalidInputError]) -> _Layer:
    path = Path(CONFIG_FILE if config_file is None else config_file)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if config_file is None:
            return {}
        raise InvalidInputError("--config", "a file that exists", str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInputError("configuration", "a readable file", str(path), hint=reason) from None
    try:
        return dict(_file_entries(text, str(path), problems))
    except InvalidInputError:
        raise
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InvalidInputError("configuration", "valid YAML", yaml_problem(error), where=where) from None


def _file_entries(text: str, file: str, problems: list[InvalidInputError]) -> Iterator[tuple[str, _Given]]:
    """Yield the keys of the file, read as YAML nodes because only nodes know their line."""
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None or (isinstance(root, yaml.ScalarNode) and root.tag == "tag:yaml.org,2002:null"):
            return
        if not isinstance(root, yaml.MappingNode):
            content = loader.construct_object(root, deep=True)
            raise InvalidInputError("configuration", "a mapping of sections", content, where=file)
        seen: set[str] = set()

        def entries(node: yaml.MappingNode, section: str) -> Iterator[tuple[str, _Given]]:
            for key_node, value_node in node.value:
                key = section + str(key_node.value)
                where = f"{file}:{key_node.start_mark.line + 1}"
                if key in seen:
                    problems.append(InvalidInputError(key, "given once", "a second value", where=where))
                seen.add(key)
                if key in SECTIONS and isinstance(value_node, yaml.MappingNode):
                    yield from entries(value_node, f"{key}.")
                    continue
                value = loader.construct_object(value_node, deep=True)
                if key in SECTIONS:
                    if value is not None:  # a section whose lines are all commented out is empty
                        problems.append(InvalidInputError(key, "a section with keys", value, where=where))
                elif key not in FIELDS:
                    choices = [name for name in (*FIELDS, *SECTIONS) if name.startswith(section)]
                    problems.append(_unknown("key", key, choices, where))
                else:
                    yield key, _Given(value, key, where)

        yield from entries(root, "")
    finally:
        loader.dispose()


def _read_env_file() -> dict[str, str]:
    try:
        # No interpolation: the result must not depend on what else is in the process's environment.
        found = dotenv_values(_ENV_FILE, interpolate=False) if _ENV_FILE.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InvalidInputError(str(_ENV_FILE), "a readable file", str(_ENV_FILE), hint=reason) from None
    return {name: value for name, value in found.items() if value is not None}


def _from_variables(environ: Mapping[str, str], where: str, problems: list[InvalidInputError]) -> _Layer:
    """Return the variables by either name; the long one wins because no other program uses it."""
    layer = {key: _Given(environ[name], name, where) for name, key in SHORT_VARIABLES.items() if environ.get(name)}
    for name, value in environ.items():
        if not name.startswith(_LONG_PREFIX) or name in _OTHER_VARIABLES:
            continue
        if name not in VARIABLES:
            problems.append(_unknown("variable", name, VARIABLES, where))
        elif value:  # "NAME=" without a value is how a template leaves a variable unset
            layer[VARIABLES[name]] = _Given(value, name, where)
    return layer


def _unknown(kind: str, name: str, choices: Iterable[str], where: str) -> InvalidInputError:
    """Return an error for an unknown name, with the nearest known one as the hint."""
    known = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    section = name.rpartition(".")[0]
    place = f" of section {section}" if section in SECTIONS else ""
    hint = f"did you mean '{known[near[0]]}'?" if near else f"known: {', '.join(known.values())}"
    return InvalidInputError(kind, f"a known one{place}", name, where=where, hint=hint)


def _translated(error: ValidationError, given: _Layer) -> Iterator[InvalidInputError]:
    """Yield one error per wrong setting, under the name that the user gave it."""
    reported: set[str] = set()
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"][:2])
        if key in reported:  # a range with two bad ends is one problem
            continue
        reported.add(key)
        one = given.get(key) or next((g for k, g in given.items() if k.startswith(key)), _Given(None, key))
        cause = problem.get("ctx", {}).get("error")
        if isinstance(cause, InvalidInputError):
            # The cause's own field is named only where it is more exact ("variant" of a scheduler).
            name = one.name if cause.field in key else f"{one.name}: {cause.field}"
            # The cause's own place is that in a file which the setting names.
            where = ": ".join(place for place in (one.where, cause.where) if place)
            yield InvalidInputError(name, cause.allowed, cause.got, where=where or None, hint=cause.hint)
        elif key not in FIELDS:
            yield _unknown("key", key, FIELDS, "overrides")
        else:
            value = "something else" if FIELDS[key].annotation is SecretStr else one.value
            yield InvalidInputError(one.name, str(FIELDS[key].description), value, where=one.where)
