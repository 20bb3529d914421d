"""Models of task durations: fitting, online learning, drift detection, retraining."""
