"""Training in one call, as the published guide does it."""

from hybrid_scheduler import OfflineTrainer, WorkloadGenerator

trainer = OfflineTrainer(model_type="random_forest", n_estimators=100, max_depth=15)
wg = WorkloadGenerator.load("data/workload_traces/training_workload.csv")
results = trainer.run_full_pipeline(wg, model_output_path="models/scheduler_model.pkl")
print(f"importances: {results['feature_importances']}")
