"""Guide pages: commands, settings, routes, modules and schedulers that they name exist."""

import json
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from guide_book.pages import slug
from guide_reference.command_line import cli_commands
from guide_reference.home_page import REPOSITORY
from guide_reference.measured import families
from hybrid_scheduler.config import FIELDS, SECTIONS
from hybrid_scheduler.schedulers import create, schedulers, split_specs

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
GUIDE = DOCS / "guide"
PAGES = sorted(GUIDE.rglob("*.md"))
#: Hand-written pages about the product.
WRITTEN = [page for page in PAGES if page.parent.name != "reference"] + [
    ROOT / "README.md",
    DOCS / "index.md",
    DOCS / "hardware.md",
    DOCS / "server.md",
    DOCS / "release-checklist.md",
    DOCS / "wiki" / "README.md",
]
#: Python files of the repository.
SOURCES = [
    path
    for folder in ("src", "studies", "scripts", "examples", "benchmarks", "tests")
    for path in (ROOT / folder).rglob("*.py")
]
OWN = {name for name, info in schedulers().items() if info.factory.__module__.startswith("hybrid_scheduler.")}
ids = {"ids": lambda page: page.relative_to(ROOT).as_posix()}


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose(page: Path) -> str:
    """Without blocks of code."""
    return re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def headings(page: Path) -> list[str]:
    return [line.lstrip("# ") for line in prose(page).splitlines() if line.startswith("#")]


# ------------------------------------------------------------------------------------------ links


@pytest.mark.parametrize("page", [*sorted(DOCS.rglob("*.md")), *ROOT.glob("*.md")], **ids)
def test_links_and_anchors_exist(page):
    text = prose(page).replace(f"]({REPOSITORY}", f"]({os.path.relpath(ROOT, page.parent)}/")
    for path, _, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#]*)(#?)([^)]*)\)", text):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor and target.suffix == ".md":
            assert anchor in {slug(re.sub(r"[`*]", "", words)) for words in headings(target)}, f"{path}#{anchor}"


def navigation(entries: list) -> Iterator[str]:
    """Every page below these entries of the navigation."""
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from navigation(value)


def test_every_page_is_in_the_navigation_once():
    listed = list(navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    assert len(listed) == len(set(listed))
    assert {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} <= set(listed)
    files = [
        ROOT / path.removeprefix(REPOSITORY) if path.startswith(REPOSITORY) else DOCS / path for path in listed
    ]
    assert [path for path in files if not path.is_file()] == []


# ------------------------------------------------------------------------------------------ named things exist


def named_commands(page: Path) -> list[tuple[str, list[str]]]:
    """(command, options) of every call of the program, in blocks of code and between backticks."""
    whole = text_of(page).replace("\\\n", " ")
    blocks = re.findall(r"^ *```.*?^ *```", whole, re.MULTILINE | re.DOTALL)
    text = "\n".join([*blocks, *re.findall(r"`[^`\n]+`", prose(page))])
    found = []
    for line in re.findall(r"hybrid-scheduler((?: --config \S+)? [a-z][^`\n|)#&;]*)", text):
        words = [word for word in line.replace("--config", "", 1).split() if word not in ("mine.yaml",)]
        group = words[0] == "db" or words[:2] in (["models", "show"], ["models", "clear"])
        name = " ".join(words[:2]) if group else words[0]
        found.append((name.rstrip(".,:"), [word.rstrip(".,:]") for word in words if re.match(r"--[a-z]", word)]))
    return found


@pytest.mark.parametrize("page", WRITTEN, **ids)
def test_commands_and_their_options_exist(page):
    commands = cli_commands()
    shared = {"--config", "--plugin", "--log-level", "--quiet", "--version", "--help", "--json"}
    for name, options in named_commands(page):
        assert name in commands, f"hybrid-scheduler {name}"
        known = {option for parameter in commands[name].params for option in parameter.opts} | shared
        assert [option for option in options if option.partition("=")[0] not in known] == [], (
            f"hybrid-scheduler {name}"
        )


@pytest.mark.parametrize("page", WRITTEN, **ids)
def test_schedulers_named_in_commands_can_be_created(page):
    for quoted, bare in re.findall(
        r"hybrid-scheduler[^\n`]*--schedulers? (?:\"([^\"\n]+)\"|([\w,]+))", text_of(page)
    ):
        for spec in split_specs(quoted or bare):
            if spec not in ("all", "mine", "overflow"):
                create(spec)


@pytest.mark.parametrize("page", WRITTEN, **ids)
def test_settings_named_in_the_text_exist(page):
    files = {"py", "md", "yaml", "json", "txt", "db", "log", "csv"}
    for name in re.findall(r"`([a-z]+\.[a-z_]+)(?::[^`]*)?`", text_of(page)):
        if name.partition(".")[0] in SECTIONS and name.partition(".")[2] not in files and "(" not in name:
            known = name in FIELDS or name.partition(".")[0] in ("workload", "physics")
            assert known, name


@pytest.mark.parametrize("page", WRITTEN, **ids)
def test_routes_named_in_the_text_exist(page):
    paths = json.loads((DOCS / "openapi.json").read_text(encoding="utf-8"))["paths"]
    known = {(method.upper(), path) for path, operations in paths.items() for method in operations}
    for method, path in re.findall(r"\b(GET|POST|PUT|DELETE) (/api/[\w/{}.]+)", text_of(page)):
        assert (method, path.rstrip(".")) in known, f"{method} {path}"


@pytest.mark.parametrize("page", WRITTEN, **ids)
def test_programs_named_in_the_text_exist(page):
    for module in re.findall(r"python -m (hybrid_scheduler[\w.]*)", text_of(page)):
        path = ROOT / "src" / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module
    for script in re.findall(r"python3? ((?:scripts|examples|benchmarks)/[\w/]+\.py)", text_of(page)):
        assert (ROOT / script).is_file(), script


@pytest.mark.parametrize("page", WRITTEN, **ids)
def test_commands_are_written_for_an_activated_environment(page):
    assert re.findall(r"\.venv/bin/(?!activate)\S+", text_of(page)) == []


@pytest.mark.parametrize(
    "page", [page for page in [*WRITTEN, DOCS / "architecture.md"] if page.stem != "old-names"], **ids
)
def test_source_files_named_in_the_text_exist(page):
    users_own = {"overflow.py", "my_scheduler.py"}
    for name in set(re.findall(r"`([\w/-]+\.py)`", prose(page))) - users_own:
        assert any(path.as_posix().endswith("/" + name) for path in SOURCES), name


def test_modules_on_the_page_of_old_names_exist():
    modules = text_of(GUIDE / "old-names.md").partition("## Names of JSON fields")[0]
    for cells in re.findall(r"^\| `[^|]+\|([^|]+)\|", modules, re.MULTILINE):
        for name in re.findall(r"`([\w./]+)`", cells):
            if name.startswith("hybrid_scheduler."):
                assert find_spec(name), name
            else:
                assert (ROOT / name).exists() or (ROOT / "src" / "hybrid_scheduler" / name).exists(), name


# ------------------------------------------------------------------------------------------ schedulers


@pytest.mark.parametrize("name", sorted(OWN))
def test_every_scheduler_has_a_section_on_one_page(name):
    page = GUIDE / "schedulers" / families()[name]
    section = re.search(rf"^## `{name}`\n(.*?)(?=^## |\Z)", text_of(page), re.MULTILINE | re.DOTALL)
    assert section, f"{page.name}: ## `{name}`"
    for part in (
        "- **Wins** ",
        "- **Fails** ",
        f"schedulers/{schedulers()[name].factory.__module__.rpartition('.')[2]}.py`",
    ):
        assert part in section[1], part
    assert len(re.findall(r"^\|.*±.*\|$", section[1], re.MULTILINE)) >= 3


def test_every_measured_table_is_of_a_scheduler():
    assert set(families()) == OWN


def test_schedulers_with_results_can_be_created():
    readme = text_of(ROOT / "README.md").partition("## Results")[2].partition("\n## ")[0]
    spec = r"`([a-z_]+(?:\([^`]*\))?)`"
    named = {*re.findall(spec, readme), *re.findall(rf"^\| {spec}", text_of(ROOT / "RESULTS.md"), re.MULTILINE)}
    assert len(named) >= 8
    for name in named:
        create(name)


def test_measurement_covers_every_scheduler():
    document = json.loads((GUIDE / "schedulers" / "measured.json").read_text(encoding="utf-8"))
    assert document["seeds"] >= 5
    assert document["first_seed"] in (1000, 3000)  # models were trained and prices tuned below that
    assert set(document["cases"]["batch"]["schedulers"]) == OWN


# ------------------------------------------------------------------------------------------ questions


def questions() -> list[tuple[int, str, str]]:
    """Number, question and answer of each row."""
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", text_of(GUIDE / "faq.md"), re.MULTILINE)
    return [(int(number), question, answer) for number, question, answer in rows]


def test_the_hundred_questions_are_numbered_and_different():
    found = questions()
    assert [number for number, _, _ in found] == list(range(1, 101))
    assert len({question.lower() for _, question, _ in found}) == 100


@pytest.mark.parametrize(("number", "question", "answer"), questions())
def test_answers_contain_a_command_or_a_link(number, question, answer):
    assert question.endswith("?")
    assert re.search(r"`[^`]+`|\]\(", answer), question
    assert answer.endswith((".", ". ")), question


# ------------------------------------------------------------------------------------------ drawings

PICTURES = sorted((GUIDE / "images").glob("*.svg"))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_drawings_use_supported_elements_and_are_shown(picture):
    root = ET.parse(picture).getroot()
    kinds = {one.tag.partition("}")[2] for one in root.iter()}
    # What scripts/make_guide_pdf.py can draw; no style sheets, so that they look the same everywhere.
    assert kinds <= {"svg", "g", "defs", "use", "rect", "circle", "line", "polygon", "path", "text"}
    assert root.get("aria-label")
    assert "http" not in text_of(picture).replace("http://www.w3.org/2000/svg", "")
    assert any(f"images/{picture.name})" in text_of(page) for page in PAGES)
