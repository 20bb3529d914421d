"""The wheel and the sdist: their content, and a run in an empty environment."""

import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from borrowed_environment import ROOT, SOURCE, empty_environment, site_packages
from running_server import said, started

from build_dashboard import NoDashboardError, ensure_dashboard
from hybrid_scheduler import __version__

pytestmark = pytest.mark.skipif(os.name == "nt", reason="environments are borrowed by links")
NAME = f"hybrid_scheduler-{__version__}"


@pytest.fixture(scope="module")
def dashboard() -> Path:
    try:
        return ensure_dashboard()
    except NoDashboardError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def packages(dashboard, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    build(ROOT, folder, "wheel", "sdist")
    return folder


def build(root: Path, folder: Path, *targets: str, **environment: str) -> None:
    chosen = [word for target in targets for word in ("-t", target)]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder), *chosen]
    done = subprocess.run(command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def sources() -> set[str]:
    """What the package consists of; caches of tools lie between it."""
    found = (path.relative_to(SOURCE.parent) for path in SOURCE.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if not re.search(r"(^|/)(__pycache__|\.)", path.as_posix())}


def pages(dashboard: Path) -> set[str]:
    found = (path.relative_to(dashboard).as_posix() for path in dashboard.rglob("*") if path.is_file())
    return {name for name in found if name != ".stamp"}


def test_wheel_holds_the_product_and_nothing_else(packages, dashboard):
    names = set(contents(packages / f"{NAME}-py3-none-any.whl"))
    built = {f"hybrid_scheduler/dashboard_dist/{name}" for name in pages(dashboard)}
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert names == sources() | built | {f"{NAME}.dist-info/{name}" for name in about}
    for wanted in (
        r"dashboard_dist/index\.html",
        r"dashboard_dist/assets/index-.*\.js",
        r"dashboard_dist/assets/index-.*\.css",
        r"models/rl_agent\.safetensors",
        r"profiles/h200\.json",
        r"storage/migrations/env\.py",
        r"storage/migrations/versions/.*\.py",
        r"py\.typed",
    ):
        assert any(re.fullmatch(f"hybrid_scheduler/{wanted}", name) for name in names), wanted
    assert (packages / f"{NAME}-py3-none-any.whl").stat().st_size < 8_000_000


def test_sdist_holds_what_builds_the_wheel_and_nothing_else(packages, dashboard):
    with tarfile.open(packages / f"{NAME}.tar.gz") as archive:
        names = {name.removeprefix(f"{NAME}/") for name in archive.getnames()}
    build_files = {"pyproject.toml", "hatch_build.py", ".gitignore", "PKG-INFO"}
    texts = {"README.md", "CHANGELOG.md", "LICENSE"}
    built = {f"dashboard/dist/{name}" for name in pages(dashboard)}
    assert names == {f"src/{name}" for name in sources()} | built | build_files | texts


def test_sdist_builds_the_same_wheel_without_node(packages, tmp_path):
    with tarfile.open(packages / f"{NAME}.tar.gz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(tmp_path, filter="data")
        else:  # Python 3.11.0 to 3.11.3 have no filters; the archive was built here
            archive.extractall(tmp_path)
    build(tmp_path / NAME, tmp_path, "wheel", PATH="")
    wheel = f"{NAME}-py3-none-any.whl"
    assert contents(tmp_path / wheel) == contents(packages / wheel)


def test_every_file_is_recorded(packages):
    with zipfile.ZipFile(packages / f"{NAME}-py3-none-any.whl") as archive:
        record = csv.reader(io.StringIO(archive.read(f"{NAME}.dist-info/RECORD").decode()))
        assert [row[0] for row in record] == archive.namelist()


def test_wheel_and_changelog_have_the_same_version(packages):
    with zipfile.ZipFile(packages / f"{NAME}-py3-none-any.whl") as archive:
        metadata = archive.read(f"{NAME}.dist-info/METADATA").decode()
    version = re.search(r"^Version: (.*)$", metadata, re.MULTILINE)
    assert version is not None
    assert version[1] == __version__
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (.*)$", changes, re.MULTILINE)
    assert newest is not None
    assert re.fullmatch(rf"{re.escape(__version__)} - (Unreleased|\d{{4}}-\d\d-\d\d)", newest[1])


@pytest.mark.slow
@pytest.mark.timeout(900)  # on a busy machine with nothing compiled yet
def test_the_wheel_in_an_empty_environment_serves_the_dashboard(packages, tmp_path):
    python = empty_environment(tmp_path / "venv")
    # Nothing on the path but the new environment: no Node, no compiler, none of our own commands.
    environment = {"PATH": str(python.parent), "HOME": str(tmp_path / "home")}
    assert shutil.which("node", path=environment["PATH"]) is None
    wheel = packages / f"{NAME}-py3-none-any.whl"
    said([str(python), "-m", "pip", "install", "--no-index", str(wheel)], tmp_path, environment)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    program = str(python.with_name("hybrid-scheduler"))

    where = said([str(python), "-c", "import hybrid_scheduler as h; print(h.__file__)"], elsewhere, environment)
    assert Path(where.strip()).is_relative_to(site_packages(tmp_path / "venv"))
    assert said([program, "--version"], elsewhere, environment) == f"hybrid-scheduler {__version__}\n"
    assert "ready" in said([program, "doctor"], elsewhere, environment)
    result = json.loads(said([program, "simulate", "--json", "--tasks", "100"], elsewhere, environment))
    assert set(result["schedulers"]) >= {"greedy", "hybrid_ml", "rl_agent", "oracle"}

    with started([program, "serve", "--port", "0"], elsewhere, environment) as server:
        with server.client() as client:
            page = client.get("/", headers={"Accept": "text/html,*/*;q=0.8"})
            assert page.headers["content-type"].startswith("text/html")
            assets = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page.text)
            assert {Path(name).suffix for name in assets} >= {".js", ".css"}
            for name in assets:
                assert client.get(name).status_code == 200
            health = client.get("/api/health").json()
            assert (health["status"], health["version"]) == ("ok", __version__)
        assert server.stop() == 0
