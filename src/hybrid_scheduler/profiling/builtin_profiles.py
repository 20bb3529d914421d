"""Profiles that ship with the package, by name."""

from __future__ import annotations

from pathlib import Path

from ..core import UnknownNameError
from .hardware_profile import AnyPath, Profile, load_profile

FOLDER = Path(__file__).parent.parent / "profiles"


def shipped_profiles() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def profile_path(name: str) -> Path:
    """Where a shipped profile lies."""
    if name not in shipped_profiles():
        raise UnknownNameError("profile", name, shipped_profiles())
    return FOLDER / f"{name}.json"


def profile_named(name_or_path: AnyPath) -> Profile:
    """A shipped profile by its name, anything else by its path."""
    if isinstance(name_or_path, str) and not Path(name_or_path).suffix and not Path(name_or_path).exists():
        return load_profile(profile_path(name_or_path))
    return load_profile(name_or_path)
