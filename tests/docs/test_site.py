"""Site of the guide: it builds without warnings, if zensical is installed."""

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.skipif(find_spec("zensical") is None, reason="zensical is not installed")
def test_site_builds_without_warnings(tmp_path):
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "guide" / "start" / "kitchen.html").is_file()
    assert "kitchen.svg" in (tmp_path / "site" / "guide" / "start" / "kitchen.html").read_text(encoding="utf-8")
