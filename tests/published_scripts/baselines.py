"""Simple strategies on simulated GPUs, as the published guide compares them."""

from hybrid_scheduler import VirtualMultiGPU, WorkloadGenerator

simulator = VirtualMultiGPU(num_gpus=4, memory_per_gpu=8000)
wg = WorkloadGenerator(seed=123)
test_tasks = wg.generate_workload(num_tasks=500)

baselines = simulator.evaluate_baseline_schedulers(test_tasks)
for strategy, metrics in baselines.items():
    print(f"{strategy}:")
    print(f"  makespan {metrics['makespan']:.2f} s")
    print(f"  mean {metrics['avg_time']:.4f} s, longest {metrics['max_time']:.4f} s")
