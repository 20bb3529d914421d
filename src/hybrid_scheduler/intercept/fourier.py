"""GPU variants of `numpy.fft` and `scipy.fft`, which have the same functions; only SciPy has `workers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .variants import gpu_variant

_KINDS = {"fft": "fdFD", "ifft": "fdFD", "rfft": "fd", "irfft": "FD"}


def _is_long(a: Any, axis: Any = None, axes: Any = None, **_: Any) -> bool:
    """Return whether every axis is transformed once and has at least two values."""
    chosen = range(a.ndim) if axes is None else axes
    chosen = chosen if axis is None else (axis,)
    return len({number % a.ndim for number in chosen}) == len(chosen) > 0 and all(a.shape[n] > 1 for n in chosen)


def _transform(torch: Any, kind: str, a: Any, axes: Any, norm: str | None) -> Any:
    """Return a transform; imaginary parts that an inverse real one ignores are removed: cuFFT reads them."""
    chosen = tuple(range(a.ndim)) if axes is None else tuple(axes)
    if kind != "irfft":
        return getattr(torch.fft, f"{kind}n")(a, dim=chosen, norm=norm)
    if len(chosen) > 1:
        a = torch.fft.ifftn(a, dim=chosen[:-1], norm=norm)
    a = a.movedim(chosen[-1], -1).clone()
    a.imag[..., 0] = 0
    a.imag[..., -1] = 0
    return torch.fft.irfft(a, norm=norm).movedim(-1, chosen[-1])


def _along_one(kind: str) -> Callable[..., Any]:
    def run(torch: Any, a: Any, n: None = None, axis: int = -1, norm: Any = None, *, workers: Any = None) -> Any:
        return _transform(torch, kind, a, (axis,), norm)

    return run


def _along_several(kind: str, default: Any) -> Callable[..., Any]:
    def run(
        torch: Any, a: Any, s: None = None, axes: Any = default, norm: Any = None, *, workers: Any = None
    ) -> Any:
        return _transform(torch, kind, a, axes, norm)

    return run


for _kind, _dtypes in _KINDS.items():
    _variants = {"": _along_one(_kind), "2": _along_several(_kind, (-2, -1)), "n": _along_several(_kind, None)}
    for _end, _run in _variants.items():
        gpu_variant(
            f"numpy.fft.{_kind}{_end}", f"scipy.fft.{_kind}{_end}", options=["axis", "axes", "norm", "workers"],
            where=_is_long, dtypes=_dtypes, least=1 << 14, start=1 << 20,
        )(_run)  # fmt: skip
