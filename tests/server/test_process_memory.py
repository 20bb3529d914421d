"""Memory that is given back: nothing that is still needed goes with it."""

import math
import sys

import pytest

from hybrid_scheduler import LiveConfig
from hybrid_scheduler.learning.duration.retraining import ProcessTrainingWorker
from hybrid_scheduler.schedulers.random_forest import ForestFit
from hybrid_scheduler.server.compiling import compile_live_code
from hybrid_scheduler.server.process_memory import return_memory, train_frugally

CONFIG = LiveConfig(schedulers=("greedy", "oracle"))
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def resident():
    """Bytes of files that count as memory of this process."""
    with open("/proc/self/smaps_rollup", encoding="utf-8") as lines:
        figures = dict(line.split()[:2] for line in lines if line.endswith("kB\n"))
    return int(figures["Rss:"]) - int(figures["Anonymous:"])


@on_linux
def test_returned_memory_is_mapped_again_when_it_is_needed():
    compile_live_code(CONFIG)
    before = resident()
    return_memory()
    assert resident() < before / 2
    compile_live_code(CONFIG)
    assert math.hypot(3, 4) == 5


def test_forest_is_fitted_in_a_process_that_returns_its_memory():
    import numpy as np

    generator = np.random.default_rng(1)
    request = ForestFit(generator.random((60, 4)), generator.random(60), 1, "interval")
    worker = ProcessTrainingWorker(train_frugally)
    try:
        first, second = (worker.submit(request).result(60).fitted for _ in range(2))
    finally:
        worker.close()
    assert type(first) is type(second)
