"""A forest for the estimated durations, as the published guide trains it on columns of a data frame."""

from hybrid_scheduler import RandomForestPredictor, WorkloadGenerator

wg = WorkloadGenerator.load("data/workload_traces/training_workload.csv")
model = RandomForestPredictor(n_estimators=100, max_depth=15)

df = wg.to_dataframe()
features = ["task_size", "compute_intensity", "memory_required"]
X = df[features]
y = df["duration_estimate"]

results = model.fit(X, y, test_size=0.2)
print(f"R² in training: {results['train_r2']:.4f}, in the test: {results['test_r2']:.4f}")

importances = model.feature_importance()
print(f"importances: {importances}")
model.save("models/scheduler_model.pkl")
