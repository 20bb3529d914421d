"""Model file of the agent: weights and metadata in torch's format, loaded without running any code.

A file is refused, with the reason, if it is missing, truncated or altered (a digest goes with the weights), not an
agent's file, of another version, for another state or number of features, or holds a number that is not finite.
Saving writes beside the old file and then replaces it, so a full disk leaves the old one as it was.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...core.atomic_files import atomic_path
from ..model_files import ModelFileError
from .decision_options import ACTION_SETS, ACTIONS, FEATURES
from .q_network import NAMES, Floats32, NetworkShape

FORMAT = "hybrid-scheduler rl_agent"
#: Raised when the meaning of the features or the layout changes: older files are refused.
VERSION = 1
_MAX_BYTES = 64 * 2**20


@dataclass(frozen=True)
class AgentModel:
    """A trained network and the setting it was trained for."""

    state: str
    actions: str
    gamma: float
    weights: Floats32
    notes: dict[str, Any] = field(default_factory=dict)
    hidden: int = 256

    @property
    def shape(self) -> NetworkShape:
        """Shape of the network."""
        return NetworkShape(FEATURES[self.state], ACTIONS, self.hidden)


def save_model(path: Path, model: AgentModel) -> None:
    """Write the file completely or not at all.

    Raises
    ------
    ModelFileError
        If the file cannot be written.
    """
    import torch

    parts = dict(zip(NAMES, model.shape.split(model.weights), strict=True))
    content = {
        "format": FORMAT,
        "version": VERSION,
        "state": model.state,
        "actions": model.actions,
        "gamma": model.gamma,
        "hidden": model.hidden,
        "notes": model.notes,
        "weights": {name: torch.from_numpy(part.copy()) for name, part in parts.items()},
        "sha256": _digest(model.weights),
    }
    path = Path(path)
    try:
        with atomic_path(path) as fresh:
            torch.save(content, fresh)
    except (OSError, RuntimeError) as error:  # torch reports a failed write as RuntimeError
        raise ModelFileError(path, f"cannot be written: {error}") from error


def load_model(path: Path) -> AgentModel:
    """Read and check a file.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, or not a model this version can use.
    """
    import torch

    path = Path(path)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ModelFileError(path, "is far larger than an agent's file")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise ModelFileError(path, "does not exist") from error
    except ModelFileError:
        raise
    except Exception as error:  # a broken archive can raise almost anything
        raise ModelFileError(path, "is damaged, or not an agent's file") from error
    return _checked(path, content)


def _checked(path: Path, content: Any) -> AgentModel:
    import torch

    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFileError(path, "is not an agent's file")
    if content.get("version") != VERSION:
        raise ModelFileError(path, f"has version {content.get('version')!r}, this program reads version {VERSION}")
    state, actions = content.get("state"), content.get("actions")
    gamma, hidden = content.get("gamma"), content.get("hidden")
    if state not in FEATURES or actions not in ACTION_SETS:
        raise ModelFileError(path, f"is for state {state!r} and actions {actions!r}, which do not exist here")
    if not (isinstance(gamma, float) and 0.0 <= gamma < 1.0 and isinstance(hidden, int) and 0 < hidden <= 4096):
        raise ModelFileError(path, f"has gamma {gamma!r} and {hidden!r} hidden units")
    tensors, notes = content.get("weights"), content.get("notes")
    if not isinstance(tensors, dict) or set(tensors) != set(NAMES) or not isinstance(notes, dict):
        raise ModelFileError(path, "lacks weights")
    parts = []
    for name, part in zip(NAMES, NetworkShape(FEATURES[state], ACTIONS, hidden).parts, strict=True):
        tensor = tensors[name]
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.float32 or tuple(tensor.shape) != part:
            found = tuple(getattr(tensor, "shape", ()))
            raise ModelFileError(path, f"weights {name} must be float32 of shape {part}, got shape {found}")
        parts.append(tensor.numpy().ravel())
    weights = np.concatenate(parts)
    if not np.isfinite(weights).all():
        raise ModelFileError(path, "has weights that are not finite")
    if _digest(weights) != content.get("sha256"):
        raise ModelFileError(path, "was altered: its weights do not match their digest")
    return AgentModel(state, actions, gamma, weights, notes, hidden)


def _digest(weights: Floats32) -> str:
    return hashlib.sha256(weights.astype("<f4").tobytes()).hexdigest()
