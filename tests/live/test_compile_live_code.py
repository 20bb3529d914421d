"""Everything that a live run calls is compiled before the server is ready."""

import subprocess
import sys

# A process of its own: here other tests have compiled the same functions.
PROGRAM = """
import gc
import math
from numba.core.dispatcher import Dispatcher
from hybrid_scheduler import LiveConfig
from hybrid_scheduler.learning.duration.retraining import InlineTrainingWorker
from hybrid_scheduler.live.live_run import LiveRun
from hybrid_scheduler.server.compiling import compile_live_code

def compiled():
    found = (each for each in gc.get_objects() if isinstance(each, Dispatcher))
    return {f"{each.py_func.__module__}.{each.py_func.__qualname__}": len(each.signatures) for each in found}

config = LiveConfig()
compile_live_code(config)
before = compiled()
run = LiveRun(config, InlineTrainingWorker())
run.lanes.learn_all(1)
while run.ordinal < 500:
    run.advance(run.ordinal + 1, 100, math.inf)
assert [lane.name for lane in run.lanes.active] == list(config.schedulers)
learner = next(lane.learner for lane in run.lanes if lane.name == "hybrid_ml")
assert len(learner.times.versions) > 2
assert learner.times.request_training()
after = compiled()
used = {name for name, count in before.items() if count}
assert {"decide_one", "learn_one", "take_scores_one"} <= {name.rpartition(".")[2] for name in used}, used
print(sorted(name for name, count in after.items() if count and before.get(name) != count))
"""


def test_default_run_compiles_nothing_after_its_code_was_compiled() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
