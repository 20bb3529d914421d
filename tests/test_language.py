"""The language of the code base: the field's words, one name per thing, a docstring for every public name."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from hybrid_scheduler.cli.app import app
from hybrid_scheduler.schedulers import schedulers

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "hybrid_scheduler"
MODULES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}

#: Pictures and riddles that engineers from elsewhere cannot search for.
METAPHORS = (
    "wish", "wishes", "errand", "errands", "whoever", "nobody", "somebody", "patience", "wondering", "thinker",
    "mood", "moods", "weather", "company", "companion", "companions", "crowd", "guests", "house", "houses", "room",
    "rooms", "road", "roads", "cry wolf", "yardstick", "thinking", "thinks", "wonder", "wonders", "desk", "desks",
    "tally", "tallies", "surroundings", "conductor", "torn", "stranger", "strangers", "gossip", "courier",
    "appetite", "dealing cards", "deals cards", "in the same breath",
)  # fmt: skip
#: Words that programs may use, for instance for the value of `Knowledge.TOLD`, but no label and no help text.
NOT_FOR_USERS = ("told", "shown", "lane", "lanes")
#: First words of a question or a riddle.
RIDDLE = re.compile(r"(What(?!-if)|Who|Whoever|Somebody|Nobody|How|Where|When|Why|Is|Are|Does|Do|Can)\b")
#: The user `nobody` of the operating system, a deprecated flag, and keys of published file formats.
ALLOWED_LINES = re.compile(r"getpwnam|pw_uid|runs as `nobody`|--road\b|\"road\":|\"yardstick\"")
TEXTS = sorted(
    path
    for folder, suffixes in {
        "src": (".py",),
        "dashboard/src": (".ts", ".tsx", ".css"),
        "docs": (".md",),
        "tests": (".py",),
        "studies": (".py",),
        "scripts": (".py",),
        "benchmarks": (".py",),
        "examples": (".py", ".md"),
    }.items()
    for path in (ROOT / folder).rglob("*")
    if path.suffix in suffixes and path != Path(__file__)
) + [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "METHODOLOGY.md", "RESULTS.md", "CHANGELOG.md")]


def test_texts_use_the_words_of_the_field() -> None:
    pattern = re.compile(r"\b(" + "|".join(METAPHORS) + r")\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group(0)}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := pattern.search(line)) and not ALLOWED_LINES.search(line)
    ]
    assert found == []


def test_help_output_uses_the_words_of_the_field() -> None:
    pattern = re.compile(r"\b(" + "|".join((*METAPHORS, *NOT_FOR_USERS)) + r")\b", re.IGNORECASE)
    runner = CliRunner()
    program = typer.main.get_command(app)
    assert isinstance(program, typer.core.TyperGroup)
    groups: list[tuple[tuple[str, ...], typer.core.TyperGroup]] = [((), program)]
    commands: list[tuple[str, ...]] = [()]
    for path, group in groups:
        for name, command in group.commands.items():
            commands.append((*path, name))
            if isinstance(command, typer.core.TyperGroup):
                groups.append(((*path, name), command))
    assert len(commands) > 20
    found = []
    for path in commands:
        result = runner.invoke(app, [*path, "--help"])
        assert result.exit_code == 0, path
        found += [
            f"{' '.join(path)} --help: {line.strip()}"
            for line in result.stdout.splitlines()
            if pattern.search(line) and not ALLOWED_LINES.search(line)
        ]
    assert found == []


def test_labels_of_schedulers_use_the_words_of_the_field() -> None:
    pattern = re.compile(r"\b(" + "|".join((*METAPHORS, *NOT_FOR_USERS)) + r")\b", re.IGNORECASE)
    labels = [text for info in schedulers().values() for text in (info.label, info.summary)]
    assert [label for label in labels if pattern.search(label)] == []


def test_no_class_name_is_defined_twice() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(PACKAGE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_begins_with_a_noun_phrase(path: Path) -> None:
    words = ast.get_docstring(TREES[path])
    assert words, "a module needs a docstring"
    first = words.splitlines()[0]
    assert len(first) <= 116
    assert not re.match(
        r"(What(?!-if)|Who|Whoever|Somebody|Nobody|How|Where|When|Why|Is|Are|Does|Do|Can)\b", first
    ), first
    assert "?" not in first, first


def test_public_names_have_docstrings() -> None:
    missing = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert missing == []


def test_small_modules_say_why_they_stand_alone() -> None:
    """Exempt: the fronts of packages, migrations, one file per scheduler or policy, and `Decision`."""
    small = [
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if len(path.read_text(encoding="utf-8").splitlines()) < 30
        and path.name not in ("__init__.py", "__main__.py", "decision.py")
        and not {"migrations", "placement_policies", "queue_policies", "schedulers"} & set(path.parts)
        and len((ast.get_docstring(TREES[path]) or "").splitlines()) < 2
    ]
    assert small == []


#: Public names that no other file uses, and why they are public all the same.
USED_IN_ONE_FILE = {
    "HybridSchedulerEnv": "Gymnasium creates it by the name of its registration",
    "QueueOrderEnv": "Gymnasium creates it by the name of its registration",
    "HybridSchedulerVectorEnv": "Gymnasium creates it by the name of its registration",
    "LateHybridML": "the registry makes it for `hybrid_ml(binding=late)`",
    "RemoteCentral": "messages about a decision name the class of the scheduler",
    "RemoteOnline": "messages about a decision name the class of the scheduler",
    "RayBackend": "the type of the values of `RayExecutor.backends`",
}


def test_public_names_are_used_outside_their_file() -> None:
    """Exempt: types in the public interface of their own file, predictors, and decorated functions.

    Decorated functions are routes, commands and compiled code; predictors are found by their kind.
    """
    users: dict[str, set[Path]] = defaultdict(set)
    folders = ("src", "tests", "studies", "scripts", "benchmarks", "examples", "notebooks")
    programs = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".ipynb")
    ]
    for path in programs:
        if path != Path(__file__):
            for word in set(re.findall(r"\w+", path.read_text(encoding="utf-8"))):
                users[word].add(path)
    found = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path, tree in TREES.items()
        if "migrations" not in path.parts
        for node in tree.body
        for name in _public_names(node)
        if users[name] <= {path} and name not in USED_IN_ONE_FILE and name not in _interface_types(tree)
    ]
    assert found == []


def _public_names(node: ast.stmt) -> list[str]:
    """Return the public names that this statement of a module defines for others to use."""
    match node:
        case ast.ClassDef(name=name, bases=bases) if not any("Predictor" in ast.unparse(base) for base in bases):
            names = [name]
        case ast.FunctionDef(name=name, decorator_list=[]) | ast.AsyncFunctionDef(name=name, decorator_list=[]):
            names = [name]
        case ast.Assign(targets=targets):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            names = [name]
        case _:
            names = []
    return [name for name in names if not name.startswith("_")]


def _interface_types(tree: ast.Module) -> set[str]:
    """Return the names in annotations of public functions, methods and fields, and in bases of public classes."""
    found: set[str] = set()
    for node in tree.body:
        for one in [node, *node.body] if isinstance(node, ast.ClassDef) else [node]:
            name = getattr(one, "name", "")
            if name.startswith("_") and not name.startswith("__"):
                continue
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                arguments = [*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs, one.args.vararg]
                types = [argument.annotation for argument in arguments if argument] + [one.returns]
            elif isinstance(one, ast.ClassDef):
                types = list(one.bases)
            else:
                types = [one.annotation] if isinstance(one, ast.AnnAssign) else []
            for part in (part for type_ in types if type_ for part in ast.walk(type_)):
                found |= {part.id} if isinstance(part, ast.Name) else set()
    return found


#: Files that repeat lines of others, and why.
REPEATS = {
    "live/live_config.py": "the fields of a machine, which are stored and hashed one by one",
    "server/schemas/runs.py": "the fields of REST answers beside those of the status behind them",
    "schedulers/late_binding.py": "a loop that is compiled with two rules",
}


def test_no_six_lines_are_written_twice() -> None:
    """Imports, exported names, comments and lines of punctuation do not count."""
    places: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for path, tree in TREES.items():
        left_out = {
            number
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        lines = [
            (number, " ".join(line.split()))
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if number not in left_out and re.search(r"\w", line) and not line.lstrip().startswith("#")
        ]
        file = path.relative_to(PACKAGE).as_posix()
        for first in range(len(lines) - 5):
            places[tuple(text for _, text in lines[first : first + 6])].add(f"{file}:{lines[first][0]}")
    found = [
        sorted(where)
        for where in places.values()
        if len(where) > 1 and not any(place.partition(":")[0] in REPEATS for place in where)
    ]
    assert found == []
