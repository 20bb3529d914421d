"""Learned models: durations, deep Q-learning, predictors, and model files."""

from ..core import LearningEvent, ModelVersion
from .duration.features import FEATURE_NAMES, features
from .duration.flat_forest import FlatForest
from .model_files import Manifest, ModelFileError
from .offline_trainer import OfflineTrainer, train_default_duration_model
from .predictors import PREDICTORS, Predictor, RandomForestPredictor, XGBoostPredictor

__all__ = [
    "FEATURE_NAMES",
    "PREDICTORS",
    "FlatForest",
    "LearningEvent",
    "Manifest",
    "ModelFileError",
    "ModelVersion",
    "OfflineTrainer",
    "Predictor",
    "RandomForestPredictor",
    "XGBoostPredictor",
    "features",
    "train_default_duration_model",
]
