"""compose.yaml: its rules, and its services as processes over a real PostgreSQL and a real Redis."""

import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from compose_services import ROOT, MissingVariable, composed, variables
from running_server import FAST, said, started
from services import admin, postgres_server, redis_server

from hybrid_scheduler.config import load_settings
from hybrid_scheduler.server.composition import options_of

SECRETS = {name: f"{name.lower()}-0123456789abcdefghij" for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD")}
SECRETS["API_TOKEN"] = "0123456789abcdefghijklmnopqrstuv"
OURS = ("migrate", "engine", "api")
TASK = {"size": 1200.0, "compute_intensity": 0.5, "memory_required": 96.0}


@pytest.fixture(scope="module")
def project():
    return composed(SECRETS)


@pytest.mark.parametrize("name", SECRETS)
def test_a_missing_secret_is_named_and_nothing_starts(name):
    with pytest.raises(MissingVariable, match=rf"^{name} is not set, put it into \.env"):
        composed({key: value for key, value in SECRETS.items() if key != name})


def test_every_variable_is_in_the_example():
    named = set(re.findall(r"^#? ?(\w+)=", (ROOT / ".env.example").read_text(encoding="utf-8"), re.MULTILINE))
    assert variables((ROOT / "compose.yaml").read_text(encoding="utf-8")) <= named


def test_compose_declares_every_named_volume_and_network(project):
    services = project["services"]
    for name, service in services.items():
        assert set(service["networks"]) <= set(project["networks"]), name
        assert set(service.get("secrets", [])) <= set(project["secrets"]), name
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert (ROOT / source).is_dir() if source.startswith(".") else source in project["volumes"], volume
        for other, how in service.get("depends_on", {}).items():
            if how["condition"] == "service_healthy":
                # The image of our own services brings its check along.
                checked = services[other].get("healthcheck", {"test": other in OURS})
                assert checked.get("test"), f"{name} waits for {other}"
            else:
                assert services[other]["restart"] == "no", f"{name} waits for the end of {other}"


def test_nothing_is_open_that_need_not_be(project):
    for name, service in project["services"].items():
        assert "no-new-privileges:true" in service["security_opt"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert ":" in service["image"], name
        assert not service.get("privileged"), name
        if name in OURS:
            assert service["read_only"] is True, name
            assert service["cap_drop"] == ["ALL"], name
            assert [volume.rpartition(":")[2] for volume in service["volumes"]] == ["/data"], name
    assert project["networks"]["inside"]["internal"] is True
    for name in ("postgres", "redis", "migrate", "engine"):
        assert project["services"][name]["networks"] == ["inside"], name


def test_each_process_writes_its_own_volume(project):
    assert project["services"]["engine"]["volumes"] != project["services"]["api"]["volumes"]


def test_settings_accept_each_environment(project, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in OURS:
        settings = load_settings(environ=project["services"][name]["environment"])
        assert settings.storage.address().kind == "postgresql"
        assert settings.storage.redis_host in project["services"]
        assert settings.storage.postgres_host in project["services"]
    options = options_of(load_settings(environ=project["services"]["api"]["environment"]))
    assert options.token == SECRETS["API_TOKEN"]
    assert options.allowed_hosts == ("api",)
    public = composed({**SECRETS, "HYBRID_SERVER__ALLOWED_HOSTS": "a.example.org,b.example.org"})["services"][
        "api"
    ]["environment"]
    assert options_of(load_settings(environ=public)).allowed_hosts == ("api", "a.example.org", "b.example.org")


def test_database_and_settings_agree(project):
    services = project["services"]
    for name, value in services["postgres"]["environment"].items():
        assert services["engine"]["environment"][name] == value
    check = services["postgres"]["healthcheck"]["test"]
    assert check[check.index("--username") + 1] == services["postgres"]["environment"]["POSTGRES_USER"]
    assert check[check.index("--dbname") + 1] == services["postgres"]["environment"]["POSTGRES_DB"]


@pytest.mark.slow
def test_the_services_work_together(project, tmp_path):
    services = project["services"]
    with postgres_server() as database, redis_server() as cache:
        account = services["postgres"]["environment"]
        admin(
            database.url, f"CREATE ROLE {account['POSTGRES_USER']} LOGIN PASSWORD '{account['POSTGRES_PASSWORD']}'"
        )
        admin(database.url, f"CREATE DATABASE {account['POSTGRES_DB']} OWNER {account['POSTGRES_USER']}")
        configure(cache.url, services["redis"]["command"])
        there = {
            "PATH": "", "HOME": str(tmp_path), **FAST,
            "POSTGRES_HOST": "127.0.0.1", "POSTGRES_PORT": str(database.port),
            "REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(cache.port),
        }  # fmt: skip

        def command(name: str) -> tuple[list[str], Path, dict[str, str]]:
            moved = {"0.0.0.0": "127.0.0.1", "8000": "0"}
            words = [moved.get(word, word) for word in services[name]["command"]]
            folder = tmp_path / name
            folder.mkdir()
            return (
                [sys.executable, "-m", "hybrid_scheduler", *words],
                folder,
                {**services[name]["environment"], **there},
            )

        assert "created" in said(*command("migrate"))
        with started(*command("engine")) as engine, started(*command("api")) as api:
            with api.client(SECRETS["API_TOKEN"]) as client:
                decided = client.post("/api/tasks", json=TASK)
                assert decided.status_code == 201
                assert set(decided.json()["results"]) == {"round_robin", "greedy", "oracle"}
                health = client.get("/api/health").json()
                assert health["engine"]["state"] == "running"
                assert health["database"] == {"state": "ok", "kind": "postgresql"}
                assert health["cache"] == {"state": "ok", "kind": "redis"}
                # As Prometheus asks, by the name of the service.
                scrape = client.get("/api/metrics", headers={"Host": "api:8000"})
                assert "hybrid_scheduler_database_up" in scrape.text
                assert client.get("/api/status", headers={"Host": "elsewhere"}).status_code == 403
            with api.client() as anonymous:
                assert anonymous.post("/api/tasks", json=TASK).status_code == 401
                assert anonymous.get("/api/health/ready").status_code == 200
            assert api.stop() == 0
            assert engine.stop() == 0


def configure(url: str, command: list[str]) -> None:
    """Every option of the command, given to a server that runs: wrong ones are refused."""
    assert command[0] == "redis-server"
    with redis.Redis(host="127.0.0.1", port=urlsplit(url).port) as client:
        options = dict(zip(command[1::2], command[2::2], strict=True))
        for name, value in options.items():
            client.config_set(name.removeprefix("--"), value)
    with redis.Redis(host="127.0.0.1", port=urlsplit(url).port) as other, pytest.raises(redis.AuthenticationError):
        other.ping()
