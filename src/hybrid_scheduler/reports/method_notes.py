"""What every report says about how its numbers came about. METHODOLOGY.md says it at length."""

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
    "makespan": "From the first arrival to the last finish. Below capacity sane schedulers reach the bound.",
    "average_duration": "Latency includes waiting; execution time is what the two parts take once they run.",
    "speed_up": "How many times faster than the yardstick, on the same tasks.",
    "cost_comparison": "Rent of busy seconds plus electricity. Idle machines are not billed.",
    "load_balance": "Jain index of busy seconds. It says how evenly work is spread, not whether that is good.",
    "latency_cdf": "Distribution of latencies in one run; the right panel is the slowest tenth.",
    "fraction_distribution": "What share of each task runs on an accelerator.",
    "workload": "The tasks of the run that is shown in full.",
    "allocation": "The share given to accelerators while the run goes on.",
    "gantt": "The best schedulers on the same stretch of tasks.",
    "pareto_front": "Means of all three goals. A ring marks those that nobody beats on all three.",
    "feature_importance": "What the learned durations depend on.",
    "predicted_actual": "Expected when the task was placed, against what it took.",
    "learning_curves": "Errors of predictions made before the outcome was known.",
}
