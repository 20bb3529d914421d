"""What learns: features, predictors, durations learned online, drift, and models on disk."""

from .drift import DETECTORS, Detector, detector_named
from .fallback import FallbackGuard
from .features import FEATURE_NAMES, features
from .flat_forest import FlatForest
from .growth import Growth, Samples, grow
from .model_files import Manifest, ModelFileError, load_times, save_times
from .online_times import OnlineTimes
from .predictors import PREDICTORS, Predictor, RandomForestPredictor, XGBoostPredictor
from .pretrained import Pretrained
from .times_model import TimesModel
from .trainer import OfflineTrainer, train_default_times_model
from .versions import LearningEvent, ModelVersion

__all__ = [
    "DETECTORS",
    "FEATURE_NAMES",
    "PREDICTORS",
    "Detector",
    "FallbackGuard",
    "FlatForest",
    "Growth",
    "LearningEvent",
    "Manifest",
    "ModelFileError",
    "ModelVersion",
    "OfflineTrainer",
    "OnlineTimes",
    "Predictor",
    "Pretrained",
    "RandomForestPredictor",
    "Samples",
    "TimesModel",
    "XGBoostPredictor",
    "detector_named",
    "features",
    "grow",
    "load_times",
    "save_times",
    "train_default_times_model",
]
