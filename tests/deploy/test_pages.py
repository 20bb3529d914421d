"""What the pages about deployment tell people to type is typed here, where no container engine is needed for it."""

import os
import re
import shlex
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from compose_services import ROOT, composed
from dotenv import dotenv_values
from running_server import FAST, started
from services import admin, postgres_server
from websockets.sync.client import connect

from hybrid_scheduler.config import load_settings

DEPLOY = ROOT / "docs" / "guide" / "howto" / "deploy.md"
TEAM = ROOT / "docs" / "guide" / "start" / "team-deployment.md"
TASK = {"size": 1200.0, "compute_intensity": 0.5, "memory_required": 96.0}
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the commands are for a POSIX shell")

#: Stands in for the engine: `exec` runs here what it would run inside, `run` our own program; all is noted down.
DOCKER = """#!{python}
import os, sys
words = sys.argv[1:]
open({log!r}, "a").write(" ".join(words) + "\\n")
if words[:3] == ["compose", "exec", "-T"]:
    os.execvp(words[4], words[4:])
if words[:3] == ["compose", "run", "--rm"]:
    os.execv(sys.executable, [sys.executable, "-m", "hybrid_scheduler", *words[4:]])
"""


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def block(page: Path, words: str) -> str:
    (found,) = (text for text in blocks(page) if words in text)
    return found


def lines(page: Path, program: str) -> list[list[str]]:
    texts = "\n".join(blocks(page)).splitlines()
    return [shlex.split(text)[1:] for text in texts if text.startswith(f"{program} ")]


@pytest.fixture
def shell(tmp_path):
    """Runs a block of a page in a new folder, with our own program and the stand-ins on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    stand_in = tmp_path / "docker.py"
    stand_in.write_text(DOCKER.format(python=sys.executable, log=str(tmp_path / "docker.log")))
    # Through a shell: a first line "#!..." cannot name a program whose path has a space.
    python = shlex.quote(sys.executable)
    scripts = {
        "hybrid-scheduler": f'#!/bin/sh\nexec {python} -m hybrid_scheduler "$@"\n',
        "sudo": '#!/bin/sh\nexec "$@"\n',
        "docker": f'#!/bin/sh\nexec {python} {shlex.quote(str(stand_in))} "$@"\n',
    }
    for name, text in scripts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "here").mkdir()

    def run(script: str, **environment: str) -> str:
        path = os.pathsep.join((environment.pop("PATH", ""), str(programs), os.environ["PATH"]))
        done = subprocess.run(
            ["sh", "-euc", script], cwd=tmp_path / "here", capture_output=True, text=True,
            env={"PATH": path, "HOME": str(tmp_path), **environment},
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    return run


def test_secrets_are_private_files(shell, tmp_path):
    here = tmp_path / "here"
    shutil.copy(ROOT / ".env.example", here)
    shell(block(DEPLOY, "for name in POSTGRES_PASSWORD"))
    assert stat.S_IMODE((here / ".env").stat().st_mode) == 0o600
    given = {name: value for name, value in dotenv_values(here / ".env", interpolate=False).items() if value}
    assert set(given) == {"POSTGRES_PASSWORD", "REDIS_PASSWORD", "API_TOKEN"}
    assert len(set(given.values())) == 3
    assert all(len(value) >= 32 for value in given.values())
    assert composed(given)["services"]["api"]["environment"]["API_TOKEN"] == given["API_TOKEN"]


def test_files_of_the_service_are_put_in_place(shell, tmp_path):
    text = block(DEPLOY, "enable --now")
    (tmp_path / "here" / "etc" / "systemd" / "system").mkdir(parents=True)
    for name in (".env.example", "deploy"):
        (tmp_path / "here" / name).symlink_to(ROOT / name)
    shell(
        "\n".join(line for line in text.splitlines() if line.startswith("sudo install ")).replace("/etc/", "etc/")
    )
    settings = tmp_path / "here" / "etc" / "hybrid-scheduler"
    assert stat.S_IMODE(settings.stat().st_mode) == 0o700
    assert stat.S_IMODE((settings / "env").stat().st_mode) == 0o600
    unit = (tmp_path / "here" / "etc" / "systemd" / "system" / "hybrid-scheduler.service").read_text()
    (program,) = re.findall(r"^ExecStart=(\S+)/bin/hybrid-scheduler", unit, re.MULTILINE)
    assert f"python3 -m venv {program}\n" in text
    assert f"EnvironmentFile=-/{(settings / 'env').relative_to(tmp_path / 'here')}" in unit


def test_container_commands_name_what_exists():
    project = composed(dict.fromkeys(("POSTGRES_PASSWORD", "REDIS_PASSWORD", "API_TOKEN"), "x" * 32))
    profiles = {name for service in project["services"].values() for name in service.get("profiles", [])}
    spoken = [words[1:] for words in lines(DEPLOY, "docker") if words[0] == "compose"]
    assert len(spoken) >= 8
    for words in spoken:
        if words[0] == "--profile":
            assert words[1] in profiles
            words = words[2:]
        named = {"logs": words[1:], "stop": words[1:], "start": words[1:], "exec": words[2:3], "run": words[2:3]}
        assert set(named.get(words[0], [])) <= set(project["services"]), words
        assert words[0] in {*named, "up", "ps", "build"}, words
    (run,) = (words for words in lines(DEPLOY, "docker") if words[0] == "run")
    assert run[-1] == "hybrid-scheduler"
    assert run[run.index("--volume") + 1].endswith(":/data")


def test_settings_of_the_pages_are_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    proxy = dict(line.split("=", 1) for line in block(DEPLOY, "TRUSTED_PROXIES").split())
    assert load_settings(environ=proxy).server.allowed_hosts == ("scheduler.example.org",)
    (text,) = re.findall(r"^```yaml\n(.*?)^```", DEPLOY.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "page.yaml").write_text(text)
    assert load_settings(tmp_path / "page.yaml", environ={}).server.trusted_proxies == ("10.0.0.5",)


@pytest.mark.slow
def test_sqlite_comes_back_from_its_backup(shell, tmp_path):
    here = tmp_path / "here"
    command = [sys.executable, "-m", "hybrid_scheduler", "serve", "--port", "0", "--no-start"]
    with started(command, here, {"PATH": "", "HOME": str(tmp_path), **FAST}) as server:
        with server.client() as client:
            assert client.post("/api/tasks", json=TASK).status_code == 201
        probe = block(DEPLOY, "/api/health/ready").replace("http://localhost:8000", server.url)
        shell(probe)
        shell(block(DEPLOY, "VACUUM INTO"))  # while the server runs
        assert server.stop() == 0
    database = here / "data" / "hybrid_scheduler.db"
    database.write_bytes(b"damaged")
    shell(block(DEPLOY, "cp backup.db"))
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (1,)
    connection.close()
    assert "is up to date" in shell(block(DEPLOY, "db upgrade"))


@pytest.mark.slow
def test_postgresql_comes_back_from_its_backup(shell, tmp_path):
    with postgres_server() as server:
        admin(server.url, "CREATE ROLE hybrid LOGIN")
        admin(server.url, "CREATE DATABASE hybrid_scheduler_db OWNER hybrid")
        url = server.url.replace("postgres@", "hybrid@").rpartition("/")[0] + "/hybrid_scheduler_db"
        there = {
            "PATH": str(server.binaries), "PGHOST": "127.0.0.1", "PGPORT": str(server.port), "DATABASE_URL": url,
        }  # fmt: skip
        shell("hybrid-scheduler db init", **there)
        admin(url, "CREATE TABLE kept AS SELECT 42 AS answer")
        shell(block(DEPLOY, "pg_dump"), **there)
        admin(url, "DROP TABLE tasks CASCADE; DELETE FROM kept")
        shell(block(DEPLOY, "pg_restore"), **there)  # verifies, too
        admin(url, "DO $$ BEGIN ASSERT (SELECT answer FROM kept) = 42; END $$")
    asked = (tmp_path / "docker.log").read_text().splitlines()
    assert asked[1] == "compose stop engine api"
    assert asked[-1] == "compose start engine api"


@pytest.mark.slow
def test_a_team_begins_with_these_commands(shell, tmp_path):
    with postgres_server() as server:
        admin(server.url, "CREATE ROLE hybrid LOGIN")
        admin(server.url, "CREATE DATABASE hybrid_scheduler_db OWNER hybrid")
        (tmp_path / "secret").write_text("any")
        text = block(TEAM, "db init").replace("db.example.org", "127.0.0.1")
        text = text.replace("/run/secrets/postgres", str(tmp_path / "secret")).replace("python -c", "python3 -c")
        text, serve = text.rstrip().rsplit("\n", 1)
        assert serve == "hybrid-scheduler serve --host 0.0.0.0 --port 8000"  # tested with compose.yaml
        assert "created" in shell(text, POSTGRES_PORT=str(server.port))


# ------------------------------------------------------------------------------------------ the proxy


def test_the_proxy_hands_on_what_the_server_needs():
    text = (ROOT / "deploy" / "nginx" / "hybrid-scheduler.conf").read_text(encoding="utf-8")
    for line in (
        "proxy_http_version 1.1;", "proxy_set_header Upgrade $http_upgrade;", "proxy_set_header Host $host;",
        "proxy_set_header Connection $connection_upgrade;", "proxy_pass http://127.0.0.1:8000;",
        "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;",
    ):  # fmt: skip
        assert line in text
    assert "$request " not in text  # it holds the query, and with it a token
    assert "$request_uri" not in text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="nginx is not installed")
def test_pages_and_sockets_pass_through_nginx(tmp_path):
    token = "0123456789abcdefghijklmnopqrstuv"
    settings = {
        "PATH": "", "HOME": str(tmp_path), "API_TOKEN": token, **FAST,
        "HYBRID_SERVER__ALLOWED_HOSTS": "scheduler.example.org", "HYBRID_SERVER__TRUSTED_PROXIES": "127.0.0.1",
    }  # fmt: skip
    command = [sys.executable, "-m", "hybrid_scheduler", "serve", "--port", "0"]
    with started(command, tmp_path, settings) as server, proxied(server.url, tmp_path) as port:
        names = {"Host": "scheduler.example.org", "Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=names, trust_env=False) as client:
            assert client.get("/api/health").json()["status"] == "ok"
        link = socket.create_connection(("127.0.0.1", port))
        with connect(f"ws://scheduler.example.org/ws?token={token}", sock=link) as stream:
            assert '"hello"' in str(stream.recv(30))
    log = (tmp_path / "access.log").read_text()
    assert "GET /ws" in log
    assert token not in log


class proxied:
    """nginx with our file on a free port of the loopback interface, without TLS."""

    def __init__(self, upstream: str, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        text = (ROOT / "deploy" / "nginx" / "hybrid-scheduler.conf").read_text(encoding="utf-8")
        text = re.sub(r"^\s*ssl_.*$", "", text, flags=re.MULTILINE)
        text = text.replace("listen 443 ssl", f"listen 127.0.0.1:{self.port}")
        text = text.replace("http://127.0.0.1:8000", upstream)
        text = text.replace("/var/log/nginx/hybrid-scheduler.log", str(folder / "access.log"))
        places = "".join(
            f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        self.file = folder / "nginx.conf"
        account = "user root;" if os.geteuid() == 0 else ""
        self.file.write_text(
            f"daemon off; {account} pid {folder}/nginx.pid; error_log {folder}/error.log;"
            f"events {{}} http {{ {places}\n{text}\n}}"
        )
        self.folder = folder

    def __enter__(self) -> int:
        program = shutil.which("nginx", path="/usr/sbin:/usr/bin")
        assert program is not None
        self.process = subprocess.Popen([program, "-c", str(self.file), "-p", str(self.folder)])
        while True:  # it listens a moment after it has started
            assert self.process.poll() is None, (self.folder / "error.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
            except ConnectionRefusedError:
                continue
            return self.port

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(20)
