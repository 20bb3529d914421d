"""Model file of the agent: weights and metadata as safetensors, read without running any code.

A file is refused, with the reason, if it is missing, truncated or altered (a digest goes with the weights), not an
agent's file, of another version, for another state or number of features, or holds a number that is not finite. It
may also hold what the agent has learned about durations, and the guard's state. Saving writes beside the old file
and then replaces it, so a full disk leaves the old one as it was. Files that earlier versions wrote in torch's
format can be read where torch is installed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..duration.duration_files import DurationSnapshot, snapshot_from
from ..model_files import ModelFileError, parse_safetensors, read_file, save_safetensors
from .decision_options import ACTIONS, FEATURES
from .q_network import NAMES, Floats32, NetworkShape

FORMAT = "hybrid-scheduler rl_agent"
#: Raised when the meaning of the features or the layout changes: older files are refused.
VERSION = 1
_MAX_BYTES = 64 * 2**20
_WHAT = "an agent's file"
#: Observation and options of every network; files of earlier versions may have others.
_KIND = {"state": "queue", "actions": "split"}
#: First bytes of files that torch wrote: a zip archive, or a pickle.
_TORCH_FILE = (b"PK\x03\x04", b"\x80")
#: Beginnings of the names of arrays and texts: learned durations, and the guard's state.
_DURATIONS = "durations."
_GUARD = "guard."


@dataclass(frozen=True)
class AgentModel:
    """A trained network and the setting it was trained for."""

    gamma: float
    weights: Floats32
    notes: dict[str, Any] = field(default_factory=dict)
    hidden: int = 256
    #: Learned durations, and the guard's state; None and empty in a network's file.
    durations: DurationSnapshot | None = None
    guard: dict[str, NDArray[Any]] = field(default_factory=dict)

    def save_model(self, path: str | Path) -> None:
        """Write the file; see `save_model`."""
        save_model(Path(path), self)

    @property
    def shape(self) -> NetworkShape:
        """Shape of the network."""
        return NetworkShape(FEATURES, ACTIONS, self.hidden)


def save_model(path: Path, model: AgentModel) -> None:
    """Write the file completely or not at all.

    Raises
    ------
    ModelFileError
        If the file cannot be written.
    """
    metadata = {
        "format": FORMAT, "version": str(VERSION), **_KIND,
        "gamma": repr(model.gamma), "hidden": str(model.hidden), "notes": json.dumps(model.notes),
    }  # fmt: skip
    parts = np.split(model.weights.astype("<f4"), np.cumsum(model.shape.sizes)[:-1])
    arrays: dict[str, NDArray[Any]] = {
        name: part.reshape(shape) for name, part, shape in zip(NAMES, parts, model.shape.parts, strict=True)
    }
    arrays |= {_GUARD + name: array for name, array in model.guard.items()}
    if model.durations is not None:
        metadata |= {_DURATIONS + name: text for name, text in model.durations.metadata().items()}
        arrays |= {_DURATIONS + name: array for name, array in model.durations.arrays.items()}
    save_safetensors(Path(path), arrays, metadata)


def load_model(path: Path) -> AgentModel:
    """Read and check a file.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, or not a model this version can use. Files of earlier versions need torch.
    """
    path = Path(path)
    content = read_file(path, _MAX_BYTES, _WHAT)
    torch_file = content.startswith(_TORCH_FILE)
    metadata, arrays = (_read_torch if torch_file else _read_safetensors)(path, content)
    durations = _below(_DURATIONS, arrays)
    model = _checked(path, metadata, {name: array for name, array in arrays.items() if "." not in name})
    if torch_file and hashlib.sha256(model.weights.astype("<f4").tobytes()).hexdigest() != metadata.get("sha256"):
        raise ModelFileError(path, "was altered: its weights do not match their digest")
    if not durations:
        return model
    snapshot = snapshot_from(path, _below(_DURATIONS, metadata), durations)
    return replace(model, durations=snapshot, guard=_below(_GUARD, arrays))


def _below(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def _read_safetensors(path: Path, content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    metadata, arrays = parse_safetensors(path, content, _WHAT)
    try:
        metadata |= {"notes": json.loads(metadata["notes"]), "gamma": float(metadata["gamma"])}
        metadata |= {name: int(metadata[name]) for name in ("version", "hidden")}
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ModelFileError(path, f"is damaged, or not {_WHAT}") from error
    return metadata, arrays


def _read_torch(path: Path, content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and arrays of a file that an earlier version wrote."""
    try:
        import torch
    except ImportError as error:
        reason = "has the format of earlier versions, and torch, which reads it, is missing"
        raise ModelFileError(path, reason, hint='pip install "hybrid-scheduler[gpu]"') from error
    try:
        metadata = torch.load(path, map_location="cpu", weights_only=True)
        tensors = metadata.pop("weights")
        # Sparse and meta tensors have no numbers to read.
        arrays = {
            name: tensor.numpy()
            for name, tensor in tensors.items()
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and not tensor.is_meta
        }
    except Exception as error:  # a broken archive can raise almost anything
        raise ModelFileError(path, "is damaged, or not an agent's file") from error
    return metadata, arrays


def _checked(path: Path, metadata: dict[str, Any], arrays: dict[str, Any]) -> AgentModel:
    if metadata.get("format") != FORMAT:
        raise ModelFileError(path, "is not an agent's file")
    if metadata.get("version") != VERSION:
        found = str(metadata.get("version"))[:20]
        raise ModelFileError(path, f"has version {found}, this program reads version {VERSION}")
    gamma = metadata.get("gamma")
    hidden = metadata.get("hidden")
    kind = {name: str(metadata.get(name))[:20] for name in _KIND}
    if kind != _KIND:
        reason = f"is for state {kind['state']!r} and actions {kind['actions']!r}, which only earlier versions have"
        raise ModelFileError(path, reason, hint="dqn is the published agent; train one of rl_agent again")
    if not (isinstance(gamma, float) and 0.0 <= gamma < 1.0 and isinstance(hidden, int) and 0 < hidden <= 4096):
        expected = "gamma in [0, 1) and 1 to 4096 hidden units"
        raise ModelFileError(path, f"must have {expected}, got {gamma!r} and {hidden!r}")
    notes = metadata.get("notes")
    if set(arrays) != set(NAMES) or not isinstance(notes, dict):
        raise ModelFileError(path, "lacks weights")
    for name, part in zip(NAMES, NetworkShape(FEATURES, ACTIONS, hidden).parts, strict=True):
        array = arrays[name]
        if array.dtype != np.float32 or array.shape != part:
            raise ModelFileError(path, f"weights {name} must be float32 of shape {part}, got shape {array.shape}")
    weights = np.concatenate([arrays[name].ravel() for name in NAMES])
    if not np.isfinite(weights).all():
        raise ModelFileError(path, "has weights that are not finite")
    return AgentModel(gamma, weights, notes, hidden)
