"""GPU variants of convolutions that SciPy itself computes by Fourier transforms, and of distances."""

from __future__ import annotations

import sys
from typing import Any

from .variants import BOTH, gpu_variant


def _covers(a: Any, b: Any, mode: str = "full", method: str = "fft") -> bool:
    if method == "auto":
        method = sys.modules["scipy.signal"].choose_conv_method(a, b, mode)
    larger = a.ndim == b.ndim and all(m >= n for m, n in zip(a.shape, b.shape, strict=True))
    return larger and method == "fft"


@gpu_variant(
    "scipy.signal.fftconvolve",
    "scipy.signal.oaconvolve",
    options=["mode"],
    where=_covers,
    arrays=BOTH,
    least=1 << 13,
)
def fftconvolve(torch: Any, a: Any, b: Any, mode: str = "full") -> Any:
    """Return a convolution."""
    full = [m + n - 1 for m, n in zip(a.shape, b.shape, strict=True)]
    axes = tuple(range(a.ndim))
    there, back = (torch.fft.fftn, torch.fft.ifftn) if a.is_complex() else (torch.fft.rfftn, torch.fft.irfftn)
    product = back(there(a, s=full, dim=axes) * there(b, s=full, dim=axes), s=full, dim=axes)
    for axis, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)):
        length = {"full": m + n - 1, "same": m, "valid": m - n + 1}[mode]
        product = product.narrow(axis, (m + n - 1 - length) // 2, length)
    return product


def _covers_auto(a: Any, b: Any, mode: str = "full", method: str = "auto") -> bool:
    return _covers(a, b, mode, method)


@gpu_variant("scipy.signal.convolve", options=["mode", "method"], where=_covers_auto, arrays=BOTH, least=1 << 13)
def convolve(torch: Any, a: Any, b: Any, mode: str = "full", method: str = "auto") -> Any:
    """Return a convolution."""
    return fftconvolve(torch, a, b, mode)


@gpu_variant("scipy.signal.correlate", options=["mode", "method"], where=_covers_auto, arrays=BOTH, least=1 << 13)
def correlate(torch: Any, a: Any, b: Any, mode: str = "full", method: str = "auto") -> Any:
    """Return a cross-correlation."""
    return fftconvolve(torch, a, torch.flip(b, tuple(range(b.ndim))).conj().resolve_conj(), mode)


_POWERS = {"euclidean": 2.0, "sqeuclidean": 2.0, "cityblock": 1.0, "chebyshev": float("inf")}


@gpu_variant(
    "scipy.spatial.distance.cdist", options=["metric"], where=lambda metric="euclidean", **_: metric in _POWERS,
    arrays=BOTH, dtypes="d", start=1 << 15,
)  # fmt: skip
def cdist(torch: Any, a: Any, b: Any, metric: str = "euclidean") -> Any:
    """Return the distances between all pairs of rows, by differences rather than products."""
    distances = torch.cdist(a, b, p=_POWERS[metric], compute_mode="donot_use_mm_for_euclid_dist")
    return distances.square() if metric == "sqeuclidean" else distances
