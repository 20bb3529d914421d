"""Coverage of intervals within one trace: traces drawn from a known source, each evaluated by itself.

    python -m studies.trace_coverage          a minute or two on one core

Result: docs/results/evidence/trace_coverage.txt. Every seed of the mixed scenario is treated as a single trace. Its
intervals (batch means over 20 batches) should hold the mean over all seeds in 95 of 100 cases, and its verdict
should not name the wrong scheduler as the better one.
"""

from __future__ import annotations

import argparse

import numpy as np

from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.experiments.paired_comparison import compare_trace
from hybrid_scheduler.experiments.spec import ExperimentSpec, TraceSource
from hybrid_scheduler.metrics.statistics import HIGHER, LOWER, dependent_interval
from hybrid_scheduler.workload.scenarios import scenario_named

LOADS = (0.3, 0.5, 0.7, 0.85)
PAIR = ("earliest_finish", "price_index")
COLUMNS = (
    "true difference, ms",
    "mean covered",
    "difference covered",
    "right verdict",
    "too close",
    "wrong verdict",
)


def coverage(load: float, tasks: int, traces: int) -> tuple[float, ...]:
    """Return `COLUMNS`: the difference in milliseconds, everything else as a share of the traces."""
    spec = ExperimentSpec(scenario_named("mixed"), tasks, PAIR, utilisation=load)
    first, second = PAIR
    means, gaps, verdicts = [], [], []
    for seed in range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + traces):
        trace = TraceSource.of("drawn", spec.workload(seed))
        found = compare_trace(ExperimentSpec.for_trace(trace, PAIR, spec.machine), seed)
        samples = found.samples("mean_latency")
        means.append(dependent_interval(samples[second]))
        pair = found.test_pairs().pairs[second, first]
        gaps.append(pair.difference)
        verdicts.append(pair.verdict)
    level, gap = np.mean([one.mean for one in means]), np.mean([one.mean for one in gaps])
    right, wrong = (LOWER, HIGHER) if gap < 0 else (HIGHER, LOWER)
    return (
        1e3 * float(gap),
        float(np.mean([not one.excludes(float(level)) for one in means])),
        float(np.mean([not one.excludes(float(gap)) for one in gaps])),
        verdicts.count(right) / traces,
        1.0 - (verdicts.count(right) + verdicts.count(wrong)) / traces,
        verdicts.count(wrong) / traces,
    )


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--traces", type=int, default=200)
    options = parser.parse_args()
    print(f"{PAIR[1]} against {PAIR[0]}, {options.traces} traces of {options.tasks:,} mixed tasks")
    print(f"{'load':>6s}" + "".join(f"{name:>21s}" for name in COLUMNS))
    for load in LOADS:
        gap, *shares = coverage(load, options.tasks, options.traces)
        print(f"{load:>6g}{gap:>21.3f}" + "".join(f"{share:>21.1%}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
