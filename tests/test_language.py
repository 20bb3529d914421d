"""The language of the code base: the field's words, one name per thing, a docstring for every public name."""

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "hybrid_scheduler"
MODULES = sorted(PACKAGE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}

#: Pictures and riddles that engineers from elsewhere cannot search for.
METAPHORS = (
    "wish", "wishes", "errand", "errands", "whoever", "nobody", "somebody", "patience", "wondering", "thinker",
    "moods", "weather", "companions", "crowd", "guests", "house", "houses", "road", "roads", "cry wolf",
    "yardstick",
)  # fmt: skip
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
    """Exempt: the fronts of packages, migrations, one file per scheduler, and `Decision`, a word of its own."""
    small = [
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if len(path.read_text(encoding="utf-8").splitlines()) < 30
        and path.name not in ("__init__.py", "__main__.py", "decision.py")
        and not {"migrations", "schedulers"} & set(path.parts)
        and len((ast.get_docstring(TREES[path]) or "").splitlines()) < 2
    ]
    assert small == []


#: Public names that no other file uses, and why they are public all the same.
USED_IN_ONE_FILE = {
    "Info": "a type in signatures of the Gymnasium environments",
    "ErrorCode": "a type in fields of the REST schemas",
    "MaybeColumn": "a type in fields of the REST schemas",
    "Moment": "a type in fields of the REST schemas",
    "SchedulerState": "a type in fields of the REST schemas",
    "KeyedLocks": "the type of a field of `AppContext`",
    "LaneModel": "the type of a field of `SchedulerLane`",
    "PredictionScores": "the type of a field of `OnlineDurationModel`",
    "RayBackend": "the type of the values of `RayExecutor.backends`",
    "Transitions": "the type of what the replay buffer returns",
}


def test_public_names_are_used_outside_their_file() -> None:
    """Exempt: decorated names (routes, commands, records, compiled code) and subclasses, met through their base."""
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
        if users[name] <= {path} and name not in USED_IN_ONE_FILE
    ]
    assert found == []


def _public_names(node: ast.stmt) -> list[str]:
    """Return the public names that this statement of a module defines for others to use."""
    match node:
        case ast.ClassDef(name=name, bases=[], decorator_list=[]):
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


def test_the_package_stays_small() -> None:
    assert len(MODULES) <= 315
