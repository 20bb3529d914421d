"""Model files that load without running code.

A model is two files: ``name.skops``, which holds arrays and explicitly trusted types only, and ``name.json``, a
manifest with features, classes of device, package versions, hash of the training data, metrics, and the SHA-256 of
the first file. Models that are arrays alone can be one safetensors file instead: eight bytes with the length of a
JSON header, the header with name, type, shape and place of every array, and the arrays. Saving writes both beside
the old ones and then replaces them, so a full disk leaves the old model as it was. Loading checks everything before
anything is used.
"""

from __future__ import annotations

import hashlib
import json
import stat
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import HybridSchedulerError
from ..core.atomic_files import atomic_path
from .duration.features import FEATURE_NAMES

_MAX_BYTES = 256 * 1024 * 1024
_MAX_MANIFEST_BYTES = 1024 * 1024
_PACKAGES = ("numpy", "scikit-learn", "skops", "xgboost", "xgboost-cpu")

#: Hints of errors: of damaged files, and of files that are missing, of another kind, or cannot be read or written.
_DAMAGED = "train it again, or restore the file"
_CHECK_PATH = "check the path"
_CHECK_RIGHTS = "check the permissions of the file and of its folder"
_NO_MANIFEST = "copy the model together with its manifest, the .json file beside it"
_UNTRUSTED = "use files of this program only; train the model again if it is one"
_CHECK_SPACE = "check that the folder exists and is writable, and the free space on its disk"


class ModelFileError(HybridSchedulerError):
    """A model file that cannot be used; the model in use stays.

    Parameters
    ----------
    path
        The file.
    reason
        What is wrong with it; follows the path in the message.
    hint
        What to do about it.
    """

    exit_code = 2

    def __init__(self, path: Path | str, reason: str, *, hint: str = _DAMAGED) -> None:
        super().__init__(f"{path}: {reason}", hint=hint)
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of a model file. `kind` is the name of a predictor.

    `target` is what a predictor was trained on; `low` and `high` are the range of its features.
    """

    kind: str
    features: tuple[str, ...] = FEATURE_NAMES
    device_classes: tuple[str, ...] = ()
    training_data_sha256: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    sha256: str = ""
    target: str = ""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


#: Fields that manifests of earlier versions do not have.
_LATER_FIELDS = {"target", "low", "high"}


def data_digest(*arrays: NDArray[Any]) -> str:
    """Return the SHA-256 of training data: shapes, types and numbers."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape}{array.dtype.str}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def manifest_path(path: Path | str) -> Path:
    """Return the path of a model file's manifest."""
    return Path(path).with_suffix(".json")


def save(model: Any, path: Path | str, manifest: Manifest) -> Manifest:
    """Write model and manifest; an OSError leaves the old files as they were.

    Returns
    -------
    Manifest
        The manifest as written.
    """
    import zipfile

    from skops.io import dump

    target = Path(path)
    _warn_of_suffix(target, (".pkl", ".pickle", ".joblib"), "is a skops archive, no pickle: .skops is its suffix")
    with atomic_path(manifest_path(target)) as fresh_manifest, atomic_path(target) as fresh:
        with fresh.open("wb") as stream:
            dump(model, stream, compression=zipfile.ZIP_DEFLATED, compresslevel=6)
        written = replace(manifest, versions=_versions(), sha256=hashlib.sha256(fresh.read_bytes()).hexdigest())
        fresh_manifest.write_text(json.dumps(asdict(written), indent=2, sort_keys=True) + "\n")
    return written


def _warn_of_suffix(path: Path, misleading: Sequence[str], text: str) -> None:
    """Warn where the suffix of a file names another format; published programs use such names."""
    if path.suffix in misleading:
        warnings.warn(f"{path.name} {text}; it is read by this package whatever its suffix", stacklevel=4)


def load(
    path: Path | str, kind: str, *, trusted: Sequence[str] = (), features: Sequence[str] | None = FEATURE_NAMES
) -> tuple[Any, Manifest]:
    """Read a model and its manifest.

    Parameters
    ----------
    path
        The model file; its manifest lies beside it.
    kind
        Kind of model that is expected.
    trusted
        Types that may occur beside those skops trusts by itself.
    features
        Feature names that the manifest must list; None accepts any.

    Raises
    ------
    ModelFileError
        If a file is missing, altered, of another kind, or holds types that are not trusted.
    """
    source = Path(path)
    manifest = read_manifest(source)
    if manifest.kind != kind:
        raise ModelFileError(source, f"holds a model of kind {manifest.kind!r}, not {kind!r}", hint=_CHECK_PATH)
    if features is not None and manifest.features != tuple(features):
        reason = f"was made for {len(manifest.features)} features, not these {len(features)}"
        raise ModelFileError(source, reason, hint="train it again on these features")
    try:
        if source.stat().st_size > _MAX_BYTES:
            raise ModelFileError(source, "is larger than any model of this program", hint=_CHECK_PATH)
        content = source.read_bytes()
    except OSError as error:
        raise ModelFileError(source, f"cannot be read: {error.strerror}", hint=_CHECK_RIGHTS) from error
    if hashlib.sha256(content).hexdigest() != manifest.sha256:
        raise ModelFileError(source, "was altered or truncated: its SHA-256 is not the manifest's")
    return _parse(source, content, trusted), manifest


def _parse(source: Path, content: bytes, trusted: Sequence[str]) -> Any:
    try:
        from skops.io import get_untrusted_types, loads
    except ImportError:
        raise ModelFileError(source, "cannot be read: skops is not installed", hint="pip install skops") from None
    try:
        unknown = sorted(set(get_untrusted_types(data=content)) - set(trusted))
        if unknown:
            raise ModelFileError(
                source, f"holds types that are not trusted: {', '.join(unknown[:5])}", hint=_UNTRUSTED
            )
        return loads(content, trusted=list(trusted))
    except ModelFileError:
        raise
    except Exception as error:  # skops fails in as many ways as a file can be wrong
        raise ModelFileError(source, f"is not a model file: {error}") from error


def read_manifest(source: Path) -> Manifest:
    """Return the manifest of a model file; raises `ModelFileError` if there is none that can be read."""
    place = manifest_path(source)
    try:
        if not stat.S_ISREG(place.stat().st_mode):  # reading from a pipe would never end
            raise ValueError("is not a file")
        if place.stat().st_size > _MAX_MANIFEST_BYTES:
            raise ValueError(f"has more than {_MAX_MANIFEST_BYTES} bytes")
        values = json.loads(place.read_text())
        known = {entry.name for entry in fields(Manifest)}
        if not isinstance(values, dict) or not known - _LATER_FIELDS <= set(values) <= known:
            raise ValueError(f"must have the fields {', '.join(sorted(known))}")
        for name in ("features", "device_classes"):
            values[name] = tuple(str(item) for item in values[name])
        for name in ("low", "high"):
            values[name] = tuple(float(item) for item in values.get(name, ()))
        return Manifest(**values)
    except OSError as error:
        raise ModelFileError(
            source, f"has no readable manifest {place.name}: {error.strerror}", hint=_NO_MANIFEST
        ) from error
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(place, f"is not a manifest: {error}") from error


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


# -------------------------------------------------------------------- arrays as safetensors

_LENGTH = 8
_MAX_HEADER = 2**20
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I64": np.dtype("<i8")}


def save_safetensors(path: Path, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    """Write arrays and texts as a safetensors file, completely or not at all. A digest of the arrays is added.

    Raises
    ------
    ModelFileError
        If the file cannot be written.
    """
    _warn_of_suffix(path, (".pth", ".pt"), "is a safetensors file, no file of torch: name it .safetensors")
    names = {dtype: name for name, dtype in _TYPES.items()}
    entries: dict[str, Any] = {}
    data = b""
    for name, array in arrays.items():
        part = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        offsets = [len(data), len(data) + part.nbytes]
        entries[name] = {"dtype": names[part.dtype], "shape": list(part.shape), "data_offsets": offsets}
        data += part.tobytes()
    signed = {**metadata, "sha256": hashlib.sha256(data).hexdigest()}
    text = json.dumps({"__metadata__": signed, **entries}).encode()
    text += b" " * (-len(text) % _LENGTH)  # the arrays begin at a multiple of eight bytes
    try:
        with atomic_path(Path(path)) as fresh:
            fresh.write_bytes(len(text).to_bytes(_LENGTH, "little") + text + data)
    except OSError as error:
        raise ModelFileError(path, f"cannot be written: {error}", hint=_CHECK_SPACE) from error


def read_file(path: Path, most: int, what: str) -> bytes:
    """Return the content of a model file; `what` names what is expected, with its article.

    Raises
    ------
    ModelFileError
        If it is missing, no regular file, or larger than `most` bytes.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # reading from a pipe would never end
            raise ModelFileError(path, "is not a file", hint=_CHECK_PATH)
        if found.st_size > most:
            raise ModelFileError(path, f"is far larger than {what}", hint=_CHECK_PATH)
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ModelFileError(path, "does not exist", hint=_CHECK_PATH) from error
    except OSError as error:
        raise ModelFileError(path, f"cannot be read: {error}", hint=_CHECK_RIGHTS) from error


def parse_safetensors(path: Path, content: bytes, what: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return metadata and arrays of a safetensors file; every place in it is checked before it is read.

    Raises
    ------
    ModelFileError
        If the file is damaged or not such a file.
    """
    length = int.from_bytes(content[:_LENGTH], "little")
    if len(content) < _LENGTH or not 2 <= length <= min(_MAX_HEADER, len(content) - _LENGTH):
        raise ModelFileError(path, f"is damaged, or not {what}")
    try:
        header = json.loads(content[_LENGTH : _LENGTH + length])
        metadata = dict(header.pop("__metadata__"))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelFileError(path, f"is damaged, or not {what}") from error
    data = content[_LENGTH + length :]
    arrays: dict[str, NDArray[Any]] = {}
    expected = 0
    for name, entry in header.items():
        try:
            (begin, end) = entry["data_offsets"]
            shape = tuple(entry["shape"])
            dtype = _TYPES[entry["dtype"]]
            if begin != expected or not begin <= end <= len(data):
                raise ValueError("not an array that follows the one before it")
            arrays[name] = np.frombuffer(data[begin:end], dtype).reshape(shape).astype(dtype.newbyteorder("="))
            expected = end
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise ModelFileError(path, f"is damaged: weights {name[:20]!r} cannot be read") from error
    if expected != len(data):
        raise ModelFileError(path, "is damaged: its length does not match its header")
    if hashlib.sha256(data).hexdigest() != metadata.get("sha256"):
        raise ModelFileError(path, "was altered: its weights do not match their digest")
    return metadata, arrays
