"""Learned models: duration forests, drift detection, deep Q-learning, and model files."""

from .duration.drift import DETECTORS, Detector, detector_named
from .duration.duration_model import DurationModel
from .duration.features import FEATURE_NAMES, features
from .duration.fitting import FittedDurations, Pretrained, Samples, fit_durations
from .duration.flat_forest import FlatForest
from .duration.online_duration_model import LearningEvent, ModelVersion, OnlineDurationModel
from .fallback_guard import FallbackGuard
from .model_files import Manifest, ModelFileError, load_forest_durations, save_duration_model
from .offline_trainer import OfflineTrainer, train_default_duration_model
from .predictors import PREDICTORS, Predictor, RandomForestPredictor, XGBoostPredictor

__all__ = [
    "DETECTORS",
    "FEATURE_NAMES",
    "PREDICTORS",
    "Detector",
    "DurationModel",
    "FallbackGuard",
    "FittedDurations",
    "FlatForest",
    "LearningEvent",
    "Manifest",
    "ModelFileError",
    "ModelVersion",
    "OfflineTrainer",
    "OnlineDurationModel",
    "Predictor",
    "Pretrained",
    "RandomForestPredictor",
    "Samples",
    "XGBoostPredictor",
    "detector_named",
    "features",
    "fit_durations",
    "load_forest_durations",
    "save_duration_model",
    "train_default_duration_model",
]
