"""Content of a report, independent of HTML and PDF: sections of text, tables and figures, and fixed texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True, slots=True)
class TableBlock:
    """A table with text cells.

    The first column names the row; the columns in `words` are left-aligned, all others right-aligned.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    #: Highlighted rows, such as the best.
    strong: frozenset[int] = frozenset()
    words: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class FigureBlock:
    """A figure and its caption."""

    name: str
    figure: Figure
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A titled section."""

    title: str
    blocks: Sequence[TextBlock | TableBlock | FigureBlock]


@dataclass(frozen=True, slots=True)
class ReportContent:
    """A whole report.

    Parameters
    ----------
    title, facts, headline
        Title, the line of facts below it, and the main result in a sentence or two.
    sections
        In the order of the document.
    foot
        Text for the foot of every page, such as the run's id.
    language
        Language code of the document.
    """

    title: str
    facts: Sequence[str]
    headline: str
    sections: Sequence[Section]
    foot: str = ""
    language: str = field(default="en")


#: How the numbers of a comparison on seeds come about; METHODOLOGY.md explains it at length.
METHOD = (
    "Every scheduler runs the same tasks on a simulated machine of its own. Each device is a queue, first"
    " in first out; a task may be split between one accelerator and the CPU of its node, and ends when "
    "the later part does. Latency is from arrival to finish, time is the longer of the two parts, "
    "makespan is from the first arrival to the last finish.",
    "The lower bound on the makespan is the best of three relaxations that no schedule can beat: freely "
    "divisible work from any arrival on, the best time of each task alone, and the longest chain of "
    "dependent tasks. The oracle knows realised times and is exact for each task but short-sighted over "
    "queues: it can be beaten.",
    "Seeds are paired: every seed is one workload that all schedulers get, and differences are taken seed"
    " by seed. Intervals are 95 % Student intervals over seeds; within a single run they come from batch "
    "means. Two schedulers are called different only where the Wilcoxon signed-rank test, corrected by "
    "Holm over all pairs, and the interval of the mean difference both say so; everything else is too "
    "close to call.",
    "Not modelled: contention for memory bandwidth and caches, preemption, failures of devices, and the "
    "time a scheduler itself takes to decide. Backlogs are known exactly. Numbers from the simulation are"
    " no measurements of a real machine.",
)

TRACE_METHOD = (
    *METHOD[:2],
    "The tasks are one trace, so there is one run, and on these tasks its numbers are exact. The intervals "
    "are about more tasks of the same kind: the run is cut into batches of consecutive tasks, and the spread of "
    "the batch means gives a 95 % Student interval, widened where neighbouring batches are alike. Schedulers are "
    "compared batch by batch. They are called different only where the Wilcoxon signed-rank test over batches, "
    "corrected by Holm over all pairs, and the interval of the mean difference both say so; everything else is "
    "too close to call. Makespans, quantiles and load balance belong to the run as a whole and have no interval.",
    METHOD[3],
)

CAPTIONS = {
    "makespan": "From the first arrival to the last finish. Below capacity good schedulers reach the bound.",
    "average_duration": "Latency includes waiting; execution time is what the two parts take once they run.",
    "speed_up": "Ratio to the baseline on the same tasks; above 1 is faster.",
    "cost_comparison": "Rent of busy seconds plus electricity. Idle machines are not billed.",
    "load_balance": "Jain index of busy seconds. It says how evenly work is spread, not whether that is good.",
    "latency_cdf": "Distribution of latencies in one run; the right panel is the slowest tenth.",
    "fraction_distribution": "Share of each task that runs on an accelerator.",
    "workload": "The tasks of the run whose single tasks are drawn.",
    "allocation": "Share given to accelerators over the course of the run.",
    "gantt": "The best schedulers on the same consecutive tasks.",
    "race": "Mean latency of all tasks so far.",
    "gantt_diff": "Two schedules of the same tasks; each task is coloured by when it ends in the second.",
    "pareto_front": "Means of all three goals. A ring marks schedulers that no other beats on all three.",
    "feature_importance": "Influence of each task property on the predicted durations.",
    "predicted_actual": "Time predicted when the task was placed, against its actual time.",
    "learning_curves": "Errors of predictions made before the outcome was known.",
}
