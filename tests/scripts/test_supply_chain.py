"""The locks, the bill of materials and the audit of known vulnerabilities."""

import json
import re
import sys

import pytest

import audit
import make_sbom
from bootstrap import DEVELOPMENT, NODE, ROOT, RUN_TIME, UV
from lock import packages


@pytest.mark.parametrize("lock", [RUN_TIME, DEVELOPMENT, UV, NODE])
def test_every_pin_of_a_lock_has_hashes(lock):
    text = (ROOT / lock).read_text(encoding="utf-8")
    pins = re.findall(r"^[A-Za-z0-9].*==", text, re.MULTILINE)
    assert len(pins) == len(packages(text)) > 0


def test_every_package_of_the_dashboard_has_a_hash():
    lock = json.loads((ROOT / "dashboard" / "package-lock.json").read_text(encoding="utf-8"))
    assert all(one.get("integrity", "").startswith("sha512-") for path, one in lock["packages"].items() if path)


def test_bill_of_materials_is_up_to_date_and_complete(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_sbom.py", "--check"])
    assert make_sbom.main() == 0
    bill = json.loads(make_sbom.TARGET.read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(set(references)) == len(references)
    names = {one["name"] for one in bill["components"] if one["scope"] == "required"}
    assert {"fastapi", "numpy", "react"} <= names


@pytest.mark.parametrize(
    ("findings", "report"),
    [
        (audit.python_findings, {"dependencies": [{"name": "a", "skip_reason": "not found"}]}),
        (audit.npm_findings, {"message": "audit endpoint returned an error"}),
    ],
)
def test_index_without_data_is_no_verdict(findings, report):
    with pytest.raises(audit.NoData):
        findings(report)


def test_known_vulnerabilities_are_named():
    package = {"name": "a", "version": "1.0", "vulns": [{"id": "CVE-1"}]}
    assert audit.python_findings({"dependencies": [package, {"name": "b", "vulns": []}]}) == ["a 1.0: CVE-1"]
    found = {"a": {"name": "a", "severity": "low"}, "b": {"name": "b", "severity": "critical"}}
    assert audit.npm_findings({"vulnerabilities": found}) == ["b: critical"]


def test_unreachable_index_does_not_fail(monkeypatch, capsys):
    gone = audit.Check("http://127.0.0.1:9/", ["false"], audit.npm_findings)
    monkeypatch.setattr(audit, "checks", lambda: {"npm audit": gone})
    assert audit.main() == 0
    assert "npm audit skipped: " in capsys.readouterr().out
