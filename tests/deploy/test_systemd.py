"""The unit: checked by systemd where there is one, by rules everywhere, and its command run as written."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from borrowed_environment import ROOT
from running_server import FAST, started

UNIT = ROOT / "deploy" / "systemd" / "hybrid-scheduler.service"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="systemd is Linux")
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


@pytest.fixture(scope="module")
def service() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def test_service_is_sandboxed(service):
    for name in (
        "NoNewPrivileges", "DynamicUser", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectKernelTunables",
        "ProtectControlGroups", "RestrictNamespaces", "RestrictSUIDSGID", "LockPersonality",
    ):  # fmt: skip
        assert service[name] == ["yes"], name
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]
    assert (
        service["StateDirectory"] == service["CacheDirectory"] == service["LogsDirectory"] == ["hybrid-scheduler"]
    )
    assert "MemoryDenyWriteExecute" not in service  # code is compiled while the program runs


def test_service_restarts_after_a_failure_and_has_time_to_stop(service):
    assert service["Restart"] == ["on-failure"]
    assert int(service["TimeoutStopSec"][0]) > 10


@needs_systemd
def test_unit_file_passes_systemd_analyze(tmp_path):
    unit = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(re.sub(r"^ExecStart=\S+", f'ExecStart="{sys.executable}"', text, flags=re.MULTILINE))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", str(unit)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert rated.returncode == 0, rated.stdout


@pytest.mark.slow
def test_command_of_the_service_starts_a_server(service, tmp_path):
    places = {"%S": tmp_path / "state", "%L": tmp_path / "logs", "%C": tmp_path / "cache"}

    def filled(text: str) -> str:
        return re.sub(r"%[SLC]", lambda found: str(places[found[0]]), text)

    for place in places.values():
        (place / "hybrid-scheduler").mkdir(parents=True)
    environment = dict(filled(line).split("=", 1) for line in service["Environment"])
    del environment["NUMBA_CACHE_DIR"]  # this machine has the machine code already
    program, *arguments = service["ExecStart"][0].split()
    assert program == "/opt/hybrid-scheduler/bin/hybrid-scheduler"
    command = [sys.executable, "-m", "hybrid_scheduler", *arguments]
    settings = {
        "PATH": "",
        "HOME": str(tmp_path),
        "API_PORT": "0",
        **FAST,
    }  # what /etc/hybrid-scheduler/env may say
    (working,) = service["WorkingDirectory"]
    with started(command, places["%S"] / "hybrid-scheduler", {**settings, **environment}) as server:
        with server.client() as client:
            assert client.get("/api/health").json()["status"] == "ok"
        assert server.stop() == 0
    assert filled(working) == str(places["%S"] / "hybrid-scheduler")
    assert (places["%S"] / "hybrid-scheduler" / "data" / "hybrid_scheduler.db").is_file()
    assert (places["%L"] / "hybrid-scheduler" / "app.log").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"state", "logs", "cache"}
