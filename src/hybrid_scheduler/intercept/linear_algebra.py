"""GPU variants of `numpy.linalg` and `scipy.linalg`.

A function of both libraries has the parameters of both: a library refuses those that it does not have before they
get here. Signs of singular vectors and eigenvectors are not unique; they differ between LAPACK libraries, too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .variants import BOTH, DeclinedError, gpu_variant

#: Matrices whose condition number leaves fewer digits belong to the library, which may find them singular or warn.
_DIGITS = 1e-3


def _is_square(a: Any, **_: Any) -> bool:
    return a.ndim >= 2 and bool(a.shape[-1] == a.shape[-2])


def _is_matrix(a: Any, **_: Any) -> bool:
    return bool(a.ndim == 2)


def _fits(a: Any, b: Any, assume_a: Any = None, **_: Any) -> bool:
    return _is_matrix(a) and _is_square(a) and b.ndim <= 2 and assume_a in (None, "gen", "general")


def _is_tall(a: Any, b: Any, **_: Any) -> bool:
    return _is_matrix(a) and b.ndim <= 2 and bool(a.shape[0] > a.shape[1])


def _decline_unless(good: Any) -> None:
    if not bool(good.all()):
        raise DeclinedError("a matrix is nearly singular, or not positive definite")


def _epsilon(torch: Any, a: Any) -> float:
    return float(torch.finfo(a.dtype).eps)


def _columns(b: Any) -> Any:
    return b.unsqueeze(-1) if b.ndim == 1 else b


@gpu_variant("numpy.linalg.inv", "scipy.linalg.inv", where=_is_square, options=["check_finite"])
def inv(torch: Any, a: Any, *, check_finite: bool = True) -> Any:
    """Return the inverse of a matrix that is far from singular."""
    inverse, info = torch.linalg.inv_ex(a)
    _decline_unless(info == 0)
    condition = torch.linalg.matrix_norm(a, 1) * torch.linalg.matrix_norm(inverse, 1)
    _decline_unless(condition * _epsilon(torch, a) < _DIGITS)
    return inverse


@gpu_variant(
    "numpy.linalg.solve", "scipy.linalg.solve", where=_fits, options=["check_finite", "assume_a"], arrays=BOTH
)
def solve(torch: Any, a: Any, b: Any, *, check_finite: bool = True, assume_a: Any = None) -> Any:
    """Return the solution of linear equations."""
    inv(torch, a)  # SciPy warns by the condition number
    factors, pivots = torch.linalg.lu_factor(a)
    return torch.linalg.lu_solve(factors, pivots, _columns(b)).reshape(b.shape)


@gpu_variant("scipy.linalg.solve_triangular", where=_fits, options=["lower", "check_finite"], arrays=BOTH)
def solve_triangular(
    torch: Any, a: Any, b: Any, trans: int = 0, lower: bool = False, *, check_finite: bool = True
) -> Any:
    """Return the solution of linear equations with a triangular matrix."""
    _decline_unless(torch.diagonal(a) != 0)
    return torch.linalg.solve_triangular(a, _columns(b), upper=not lower).reshape(b.shape)


@gpu_variant("numpy.linalg.det", where=_is_square)
@gpu_variant("scipy.linalg.det", where=_is_square, options=["check_finite"], dtypes="dD")
def det(torch: Any, a: Any, *, check_finite: bool = True) -> Any:
    """Return the determinant."""
    return torch.linalg.det(a)


@gpu_variant("numpy.linalg.slogdet", where=_is_square)
def slogdet(torch: Any, a: Any) -> Any:
    """Return sign and logarithm of the determinant."""
    return tuple(torch.linalg.slogdet(a))


@gpu_variant("numpy.linalg.cholesky", where=_is_square)
def cholesky(torch: Any, a: Any) -> Any:
    """Return the lower Cholesky factor, from the lower triangle."""
    factor, info = torch.linalg.cholesky_ex(a)
    _decline_unless(info == 0)
    diagonal = torch.diagonal(factor, dim1=-2, dim2=-1).real
    limit = diagonal.amax(-1) ** 2 * a.shape[-1] * _epsilon(torch, a)
    _decline_unless(diagonal.amin(-1) ** 2 > limit)
    return factor


@gpu_variant("scipy.linalg.cholesky", where=_is_square, options=["lower", "check_finite"])
def scipy_cholesky(torch: Any, a: Any, lower: bool = False, *, check_finite: bool = True) -> Any:
    """Return a Cholesky factor, from the triangle where it stands."""
    return cholesky(torch, a) if lower else cholesky(torch, a.mH).mH


@gpu_variant(
    "numpy.linalg.eigh", "scipy.linalg.eigh", where=_is_square, start=512 * 512,
    options=["UPLO", "lower", "eigvals_only", "check_finite"],
)  # fmt: skip
def eigh(
    torch: Any,
    a: Any,
    UPLO: str = "L",
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    check_finite: bool = True,
) -> Any:
    """Return eigenvalues, and eigenvectors, of a Hermitian matrix."""
    triangle = UPLO if lower else "U"
    if eigvals_only:
        return torch.linalg.eigvalsh(a, UPLO=triangle)
    return tuple(torch.linalg.eigh(a, UPLO=triangle))


@gpu_variant("numpy.linalg.eigvalsh", where=_is_square, options=["UPLO"], start=512 * 512)
def eigvalsh(torch: Any, a: Any, UPLO: str = "L") -> Any:
    """Return eigenvalues of a Hermitian matrix."""
    return torch.linalg.eigvalsh(a, UPLO=UPLO)


def _is_unique(a: Any, full_matrices: bool = True, compute_uv: bool = True, **_: Any) -> bool:
    """Return whether no further columns are asked for, which are any basis of the rest."""
    return _is_square(a) or (a.ndim >= 2 and not (full_matrices and compute_uv))


@gpu_variant(
    "numpy.linalg.svd",
    "scipy.linalg.svd",
    where=_is_unique,
    options=["full_matrices", "compute_uv", "check_finite"],
)
def svd(
    torch: Any, a: Any, full_matrices: bool = True, compute_uv: bool = True, *, check_finite: bool = True
) -> Any:
    """Return a singular value decomposition; that of a long matrix begins with its QR decomposition."""
    if not compute_uv:
        return torch.linalg.svdvals(torch.linalg.qr(a, mode="r").R if a.shape[-2] > 2 * a.shape[-1] else a)
    if a.shape[-2] > 2 * a.shape[-1]:
        q, r = torch.linalg.qr(a)
        u, values, vh = torch.linalg.svd(r, full_matrices=False)
        return q @ u, values, vh
    return tuple(torch.linalg.svd(a, full_matrices=full_matrices))


@gpu_variant("scipy.linalg.svdvals", where=_is_matrix, options=["check_finite"])
def svdvals(torch: Any, a: Any, *, check_finite: bool = True) -> Any:
    """Return singular values."""
    return svd(torch, a, compute_uv=False)


def _has_q(a: Any, mode: str = "full", **_: Any) -> bool:
    return a.ndim >= 2 and mode in ("full", "economic", "reduced", "complete")


@gpu_variant("numpy.linalg.qr", where=_has_q, options=["mode"])
def qr(torch: Any, a: Any, mode: str = "reduced") -> Any:
    """Return a QR decomposition."""
    return tuple(torch.linalg.qr(a, mode=mode))


@gpu_variant("scipy.linalg.qr", where=_has_q, options=["mode", "check_finite"])
def scipy_qr(torch: Any, a: Any, *, mode: str = "full", check_finite: bool = True) -> Any:
    """Return a QR decomposition."""
    return qr(torch, a, "complete" if mode == "full" else "reduced")


def _decline_low_rank(torch: Any, a: Any, values: Any) -> None:
    _decline_unless(values[..., -1] > values[..., 0] * _epsilon(torch, a) / _DIGITS)


def _least_squares(
    squeezed: bool, torch: Any, a: Any, b: Any, *, check_finite: bool = True, rcond: None = None
) -> Any:
    """Return solution, residuals, rank and singular values of a problem of full rank."""
    q, r = torch.linalg.qr(a)
    values = torch.linalg.svdvals(r)
    _decline_low_rank(torch, a, values)
    x = torch.linalg.solve_triangular(r, q.mH @ _columns(b), upper=True)
    rest = (_columns(b) - a @ x).abs().square().sum(0)
    return x.reshape(x.shape[:1] + b.shape[1:]), rest.reshape(b.shape[1:]) if squeezed else rest, a.shape[1], values


gpu_variant("numpy.linalg.lstsq", where=_is_tall, arrays=BOTH)(partial(_least_squares, False))
gpu_variant("scipy.linalg.lstsq", where=_is_tall, options=["check_finite"], arrays=BOTH)(
    partial(_least_squares, True)
)


@gpu_variant("numpy.linalg.pinv", "scipy.linalg.pinv", where=_is_matrix, options=["check_finite"])
def pinv(torch: Any, a: Any, *, check_finite: bool = True) -> Any:
    """Return the pseudo-inverse of a matrix of full rank."""
    u, values, vh = torch.linalg.svd(a, full_matrices=False)
    _decline_low_rank(torch, a, values)
    return vh.mH @ (u.mH / values.unsqueeze(-1))
