"""Software bill of materials, in CycloneDX JSON, made from the locks.

    python3 scripts/make_sbom.py              write docs/sbom.cdx.json
    python3 scripts/make_sbom.py --check      only check that the file is up to date

It lists every package of the locks requirements*.txt and of the dashboard's package-lock.json. The file has no date
and no random number, so that equal locks give equal files.
"""

import base64
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bootstrap import print_help_if_asked

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "sbom.cdx.json"
#: Each lock of Python packages, and whether its packages are installed with the server.
PYTHON_LOCKS = {
    "requirements.txt": "required",
    "requirements-dev.txt": "excluded",
    "requirements-uv.txt": "excluded",
    "requirements-node.txt": "excluded",
}
_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)


def python_components() -> list[dict[str, Any]]:
    """Return the packages of the Python locks; their hashes are in the locks, one for each file."""
    found: dict[str, dict[str, Any]] = {}
    for lock, scope in PYTHON_LOCKS.items():
        for name, version in _PIN.findall((ROOT / lock).read_text(encoding="utf-8")):
            purl = f"pkg:pypi/{name.lower()}@{version}"
            entry = {"type": "library", "bom-ref": purl, "name": name, "version": version, "scope": scope}
            found.setdefault(purl, {**entry, "purl": purl})
    return list(found.values())


def npm_components() -> list[dict[str, Any]]:
    """Return the packages of the dashboard's lock with their hashes."""
    lock = json.loads((ROOT / "dashboard" / "package-lock.json").read_text(encoding="utf-8"))
    found: dict[str, dict[str, Any]] = {}
    for path, package in lock["packages"].items():
        name = path.rpartition("node_modules/")[2]
        if not name or package.get("link"):
            continue
        purl = f"pkg:npm/{quote(name, safe='/')}@{package['version']}"
        algorithm, _, digest = package["integrity"].partition("-")
        hashes = [{"alg": f"SHA-{algorithm[3:]}", "content": base64.b64decode(digest).hex()}]
        entry = {"type": "library", "bom-ref": purl, "name": name, "version": package["version"]}
        scope = "excluded" if package.get("dev") else "required"
        found[purl] = {**entry, "scope": scope, "hashes": hashes, "purl": purl}
    return list(found.values())


def document() -> str:
    """Return the bill of materials as text."""
    components = sorted(python_components() + npm_components(), key=lambda one: str(one["purl"]))
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "hybrid-scheduler"}},
        "components": components,
    }
    return json.dumps(bill, indent=1) + "\n"


def main() -> int:
    print_help_if_asked(__doc__)
    text = document()
    if "--check" in sys.argv[1:]:
        if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
            return 0
        print("error: docs/sbom.cdx.json is out of date\nhint: run scripts/make_sbom.py", file=sys.stderr)
        return 1
    TARGET.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {TARGET.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
