"""Learning, deciding and serving without torch."""

import subprocess
import sys

import pytest

LEARN = """
import sys
from hybrid_scheduler import Cluster, create
from hybrid_scheduler.workload.scenarios import generate, scenario_named

workload = generate(scenario_named("mixed"), 300, 1, utilisation=0.7)
for spec in ("rl_agent", "hybrid_ml", "dqn"):
    Cluster().run(workload, create(spec))
assert "torch" not in sys.modules
"""

SERVE = """
import sys
import hybrid_scheduler.cli.serve
import hybrid_scheduler.server.app
import hybrid_scheduler.server.composition
import hybrid_scheduler.live
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize("code", [LEARN, SERVE], ids=["learn", "serve"])
def test_torch_is_not_imported(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
