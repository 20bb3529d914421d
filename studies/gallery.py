"""Figures of the guide's gallery, all from one small comparison.

    python -m studies.gallery          a minute or two on one core

Result: PNG files in docs/images/gallery.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hybrid_scheduler.experiments import FIRST_REPORTED_SEED
from hybrid_scheduler.experiments.evaluation import run_detailed
from hybrid_scheduler.experiments.paired_comparison import compare_seeds
from hybrid_scheduler.experiments.report_builder import figure_data
from hybrid_scheduler.experiments.spec import ExperimentSpec
from hybrid_scheduler.reports import figures
from hybrid_scheduler.workload.scenarios import scenario_named

FOLDER = Path("docs/images/gallery")
SCHEDULERS = ("round_robin", "greedy", "earliest_finish", "price_index", "hybrid_ml", "rl_agent", "oracle")
#: For a screen; `report` and `heavy` draw for print.
_DPI = 110


def draw_gallery(folder: Path, *, tasks: int, seeds: int) -> list[Path]:
    """Draw every figure as a small PNG."""
    spec = ExperimentSpec(scenario_named("mixed"), tasks, SCHEDULERS, utilisation=0.7)
    found = compare_seeds(spec, range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + seeds))
    data = figure_data(spec, FIRST_REPORTED_SEED, run_detailed(spec, FIRST_REPORTED_SEED), found)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in figures.FIGURES:
        path = folder / f"{name}.png"
        figures.draw(name, data).savefig(path, format="png", dpi=_DPI, metadata={"Software": None})
        written.append(path)
    return written


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=5, help="at least 2")
    options = parser.parse_args()
    for path in draw_gallery(FOLDER, tasks=options.tasks, seeds=options.seeds):
        print(path.as_posix())


if __name__ == "__main__":
    main()
