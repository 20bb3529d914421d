"""Tasks to train on, as the published guide generates them."""

from hybrid_scheduler import WorkloadGenerator

wg = WorkloadGenerator(seed=42)
tasks = wg.generate_workload(
    num_tasks=10000,
    task_size_range=(100, 5000),
    compute_intensity_range=(0.1, 1.0),
    memory_range=(10, 500),
    arrival_rate=100.0,
)
wg.save_workload("data/workload_traces/training_workload.csv")

stats = wg.get_statistics()
print(f"tasks: {stats['num_tasks']}")
print(f"mean size: {stats['avg_size']:.0f}, mean intensity: {stats['avg_intensity']:.2f}")
