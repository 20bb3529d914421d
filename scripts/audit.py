"""Known vulnerabilities of the locked packages, where an index answers.

    python3 scripts/audit.py

pip-audit checks the locks of Python packages, npm that of the dashboard. An index that cannot be reached, or has
no data on vulnerabilities, is one line and no failure: it says nothing about the packages. A known vulnerability is
exit status 1.
"""

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_ANSWER_TIMEOUT_S, _CHECK_TIMEOUT_S = 5.0, 120.0
_LOCKS = ("requirements.txt", "requirements-dev.txt", "requirements-uv.txt", "requirements-node.txt")
#: Severities of npm that count; pip-audit gives none, so all its findings count.
_SEVERE = ("high", "critical")


class NoData(Exception):
    """The index said nothing about the packages."""


class Check(NamedTuple):
    """A command that prints JSON, a page that must answer first, and a function that returns the findings."""

    page: str
    command: list[str]
    findings: Callable[[Any], list[str]]


def python_findings(report: Any) -> list[str]:
    """Return the vulnerabilities in a report of pip-audit."""
    packages = report.get("dependencies", [])
    if not any("skip_reason" not in package for package in packages):
        raise NoData("the index knows none of the packages")
    return [
        f"{package['name']} {package['version']}: {vulnerability['id']}"
        for package in packages
        for vulnerability in package.get("vulns", [])
    ]


def npm_findings(report: Any) -> list[str]:
    """Return the severe vulnerabilities in a report of npm."""
    if "vulnerabilities" not in report:
        raise NoData(str(report.get("message", "the index has no data on vulnerabilities")))
    found = report["vulnerabilities"].values()
    return [f"{one['name']}: {one['severity']}" for one in found if one["severity"] in _SEVERE]


def checks() -> dict[str, Check]:
    """Return the checks by name."""
    python = ROOT / ".venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    locks = [word for lock in _LOCKS for word in ("-r", lock)]
    audit = [str(python), "-m", "uv", "tool", "run", "pip-audit", "--disable-pip", "--require-hashes", *locks]
    npm = [shutil.which("npm") or "npm", "audit", "--prefix", "dashboard", "--json"]
    return {
        "pip-audit": Check("https://pypi.org/simple/pip/", [*audit, "--format", "json"], python_findings),
        "npm audit": Check("https://registry.npmjs.org/-/ping", npm, npm_findings),
    }


def outcome(check: Check) -> list[str]:
    """Run a check and return its findings.

    Raises
    ------
    NoData
        If nothing is known about the packages.
    """
    try:
        with urllib.request.urlopen(check.page, timeout=_ANSWER_TIMEOUT_S):
            pass
        done = subprocess.run(
            check.command, cwd=ROOT, capture_output=True, text=True, timeout=_CHECK_TIMEOUT_S, check=False
        )
        return check.findings(json.loads(done.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise NoData(str(error)) from None


def main() -> int:
    code = 0
    for name, check in checks().items():
        try:
            findings = outcome(check)
        except NoData as reason:
            print(f"==> {name} skipped: {reason}", flush=True)
            continue
        print(f"==> {name}: {len(findings)} known vulnerabilities", flush=True)
        for finding in findings:
            print(finding, flush=True)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
