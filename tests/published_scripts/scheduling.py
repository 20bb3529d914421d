"""Scheduling with a saved model, as the published guide does it: four GPUs, and the use of each."""

from hybrid_scheduler import OnlineScheduler, RandomForestPredictor

model = RandomForestPredictor.load("models/scheduler_model.pkl")
scheduler = OnlineScheduler(model=model, num_gpus=4)

from hybrid_scheduler import WorkloadGenerator  # noqa: E402

wg = WorkloadGenerator(seed=99)
test_tasks = wg.generate_workload(num_tasks=1000)
for task in test_tasks:
    scheduler.submit_task(task)
decisions = scheduler.process_queue()
print(f"decisions: {len(decisions)}")

util = scheduler.get_utilization()
print(f"mean use: {util['average_utilization']:.1%}")
for gpu_util in util.items():
    if gpu_util[0] != "average_utilization":
        print(f"  {gpu_util[0]}: {gpu_util[1]['utilization']:.1%}")
