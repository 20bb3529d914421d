"""Model file of the agent: its policy as safetensors, and optionally what it has learned about durations.

A file is refused, with the reason, if it is missing, truncated or altered (a digest goes with the arrays), not an
agent's file, of another version, of other shapes, or holds a number that is not finite.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..duration.duration_files import DurationSnapshot, snapshot_from
from ..model_files import ModelFileError, parse_safetensors, read_file, save_safetensors
from .policy import SHAPES, Policy

FORMAT = "hybrid-scheduler agent"
#: Raised when the meaning of the features or the layout changes: older files are refused.
VERSION = 1
#: Format of files before, which hold a Q-network.
_FORMER = "hybrid-scheduler rl_agent"
#: The policy that ships with the package, made by `python -m studies.agent_training`.
SHIPPED_MODEL = Path(__file__).parent.parent.parent / "models" / "rl_agent.safetensors"
_MAX_BYTES = 256 * 2**20
_WHAT = "an agent's file"
_DURATIONS = "durations."


@dataclass(frozen=True)
class AgentModel:
    """A policy, notes on its training, and learned durations if there are any."""

    policy: Policy
    notes: dict[str, Any] = field(default_factory=dict)
    durations: DurationSnapshot | None = None

    def save_model(self, path: str | Path) -> None:
        """Write a safetensors file, completely or not at all.

        Raises
        ------
        ModelFileError
            If the file cannot be written.
        """
        metadata = {"format": FORMAT, "version": str(VERSION), "notes": json.dumps(self.notes)}
        arrays = {name: getattr(self.policy, name) for name in SHAPES}
        if self.durations is not None:
            metadata |= {_DURATIONS + name: text for name, text in self.durations.metadata().items()}
            arrays |= {_DURATIONS + name: array for name, array in self.durations.arrays.items()}
        save_safetensors(Path(path), arrays, metadata)


def load_model(path: Path) -> AgentModel:
    """Read and check a file.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, or not a model that this version can use.
    """
    metadata, arrays = parse_safetensors(path, read_file(path, _MAX_BYTES, _WHAT), _WHAT)
    if metadata.get("format") == _FORMER:
        hint = "leave the model out: the agent that ships adapts late binding to the regime"
        raise ModelFileError(path, "holds the Q-network of an earlier version's agent", hint=hint)
    if metadata.get("format") != FORMAT:
        raise ModelFileError(path, f"is not {_WHAT}")
    if metadata.get("version") != str(VERSION):
        found = str(metadata.get("version"))[:20]
        raise ModelFileError(path, f"has version {found}, this program reads version {VERSION}")
    try:
        notes = dict(json.loads(metadata["notes"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelFileError(path, f"is damaged, or not {_WHAT}") from error
    model = AgentModel(_policy(path, arrays), notes)
    durations = _below(_DURATIONS, arrays)
    if not durations:
        return model
    return replace(model, durations=snapshot_from(path, _below(_DURATIONS, metadata), durations))


def _policy(path: Path, arrays: dict[str, NDArray[Any]]) -> Policy:
    for name, shape in SHAPES.items():
        array = arrays.get(name)
        if array is None or array.dtype != np.float64 or array.shape != shape:
            found = "none" if array is None else f"{array.dtype} of shape {array.shape}"
            raise ModelFileError(path, f"weights {name} must be float64 of shape {shape}, got {found}")
        if not np.isfinite(array).all():
            raise ModelFileError(path, f"weights {name} have numbers that are not finite")
    if not (arrays["deviation"] > 0.0).all():
        raise ModelFileError(path, "weights deviation must be above 0")
    return Policy(**{name: arrays[name] for name in SHAPES})


def _below(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
