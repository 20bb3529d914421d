"""Build hook that puts the built dashboard into the wheel, so that users need no Node.

An sdist carries the built files along; a checkout builds them first. HYBRID_NO_DASHBOARD=1 leaves them out.
"""

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DashboardHook(BuildHookInterface[Any]):
    """Runs before the wheel or the sdist is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # A checkout installed for development is served from dashboard/dist as it stands.
        if version == "editable" or os.environ.get("HYBRID_NO_DASHBOARD"):
            return
        root = Path(self.root)
        dist = root / "dashboard" / "dist"
        if (root / "dashboard" / "src").is_dir():
            sys.path.insert(0, str(root / "scripts"))
            from build_dashboard import ensure_dashboard

            dist = ensure_dashboard(root)
        if not (dist / "index.html").is_file():
            raise FileNotFoundError(f"{dist} holds no dashboard; HYBRID_NO_DASHBOARD=1 builds without one")
        inside = "hybrid_scheduler/dashboard_dist" if self.target_name == "wheel" else "dashboard/dist"
        for path in sorted(dist.rglob("*")):
            name = path.relative_to(dist).as_posix()
            if path.is_file() and not name.startswith("."):  # the build's own stamp stays out
                build_data["force_include"][str(path)] = f"{inside}/{name}"
