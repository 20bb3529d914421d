"""Cholesky, LU and QR factorisations of a large matrix as graphs of tile tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hybrid_scheduler as hs


@hs.auto
def factor(tile: Any) -> Any:
    """Return the Cholesky factor of a tile."""
    return hs.array_namespace(tile).linalg.cholesky(tile)


def _triangular_gpu(lower: Any, tile: Any) -> Any:
    import torch

    return torch.linalg.solve_triangular(lower, tile.mT, upper=False).mT


@hs.task(gpu=_triangular_gpu)
def solve_right(lower: Any, tile: Any) -> Any:
    """Return ``tile @ inv(lower).T``."""
    from scipy.linalg import solve_triangular

    return solve_triangular(lower, tile.T, lower=True, check_finite=False).T


@hs.auto
def update(tile: Any, left: Any, right: Any) -> Any:
    """Return ``tile - left @ right.T``."""
    return tile - left @ right.T


@hs.auto
def update_plain(tile: Any, left: Any, right: Any) -> Any:
    """Return ``tile - left @ right``."""
    return tile - left @ right


@hs.auto
def join(*rows: Any) -> Any:
    """Join tiles, row by row; None stands for a tile of zeros."""
    first = next(tile for row in rows for tile in row if tile is not None)
    xp = hs.array_namespace(first)
    full = [[xp.zeros_like(first) if tile is None else tile for tile in row] for row in rows]
    return xp.concat([xp.concat(row, axis=1) for row in full], axis=0)


def _lu_gpu(tile: Any) -> Any:
    import torch

    return torch.linalg.lu_factor(tile, pivot=False)[0]


@hs.task(gpu=_lu_gpu)
def factor_lu(tile: Any) -> Any:
    """Return L and U of a tile in one array, without exchanging rows."""
    found = np.array(tile)
    block = 64
    n = len(found)
    for at in range(0, n, block):
        end = min(n, at + block)
        for k in range(at, end):
            found[k + 1 :, k] /= found[k, k]
            found[k + 1 :, k + 1 : end] -= np.outer(found[k + 1 :, k], found[k, k + 1 : end])
        if end < n:
            lower = np.tril(found[at:end, at:end], -1) + np.eye(end - at, dtype=found.dtype)
            found[at:end, end:] = np.linalg.solve(lower, found[at:end, end:])
            found[end:, end:] -= found[end:, at:end] @ found[at:end, end:]
    return found


def _lower_unit_gpu(lu: Any, tile: Any) -> Any:
    import torch

    return torch.linalg.solve_triangular(lu, tile, upper=False, unitriangular=True)


@hs.task(gpu=_lower_unit_gpu)
def solve_lower_unit(lu: Any, tile: Any) -> Any:
    """Return ``inv(L) @ tile``."""
    from scipy.linalg import solve_triangular

    return solve_triangular(lu, tile, lower=True, unit_diagonal=True, check_finite=False)


def _upper_gpu(lu: Any, tile: Any) -> Any:
    import torch

    return torch.linalg.solve_triangular(lu, tile, upper=True, left=False)


@hs.task(gpu=_upper_gpu)
def solve_upper(lu: Any, tile: Any) -> Any:
    """Return ``tile @ inv(U)``."""
    from scipy.linalg import solve_triangular

    return solve_triangular(lu, tile.T, lower=False, trans="T", check_finite=False).T


def _orthogonal_gpu(panel: Any) -> Any:
    import torch

    for _ in range(2):
        lower = torch.linalg.cholesky(panel.mT @ panel)
        panel = torch.linalg.solve_triangular(lower.mT, panel, upper=True, left=False)
    return panel


@hs.task(gpu=_orthogonal_gpu)
def orthogonal(panel: Any) -> Any:
    """Return an orthonormal basis of a panel's columns, by Cholesky QR done twice."""
    from scipy.linalg import solve_triangular

    for _ in range(2):
        lower = np.linalg.cholesky(panel.T @ panel)
        panel = solve_triangular(lower, panel.T, lower=True, check_finite=False).T
    return panel


@hs.auto
def project(q: Any, panel: Any) -> Any:
    """Return what is left of a panel without its part in the span of Q."""
    return panel - q @ (q.T @ panel)


@hs.auto
def side_by_side(*panels: Any) -> Any:
    """Join panels."""
    return hs.array_namespace(panels[0]).concat(panels, axis=1)


Submit = Callable[..., Any]


def cholesky(submit: Submit, matrix: Any, tiles: int) -> Any:
    """Submit a tiled Cholesky factorisation; return the future of the factor."""
    step = len(matrix) // tiles
    tile = {
        (i, j): matrix[i * step : (i + 1) * step, j * step : (j + 1) * step]
        for i in range(tiles)
        for j in range(i + 1)
    }
    for k in range(tiles):
        tile[k, k] = submit(factor, tile[k, k])
        for i in range(k + 1, tiles):
            tile[i, k] = submit(solve_right, tile[k, k], tile[i, k])
        for i in range(k + 1, tiles):
            for j in range(k + 1, i + 1):
                tile[i, j] = submit(update, tile[i, j], tile[i, k], tile[j, k])
    return submit(join, *[[tile.get((i, j)) for j in range(tiles)] for i in range(tiles)])


def lu(submit: Submit, matrix: Any, tiles: int) -> Any:
    """Submit a tiled LU factorisation without exchanges; return the future of L and U in one array."""
    step = len(matrix) // tiles
    tile = {
        (i, j): matrix[i * step : (i + 1) * step, j * step : (j + 1) * step]
        for i in range(tiles)
        for j in range(tiles)
    }
    for k in range(tiles):
        tile[k, k] = submit(factor_lu, tile[k, k])
        for i in range(k + 1, tiles):
            tile[i, k] = submit(solve_upper, tile[k, k], tile[i, k])
            tile[k, i] = submit(solve_lower_unit, tile[k, k], tile[k, i])
        for i in range(k + 1, tiles):
            for j in range(k + 1, tiles):
                tile[i, j] = submit(update_plain, tile[i, j], tile[i, k], tile[k, j])
    return submit(join, *[[tile[i, j] for j in range(tiles)] for i in range(tiles)])


def qr(submit: Submit, matrix: Any, tiles: int) -> Any:
    """Submit a QR factorisation by panels (block Gram-Schmidt); return the future of Q.

    Meant for matrices that are well conditioned: a panel's basis comes from the Cholesky factor of its Gram matrix.
    """
    step = len(matrix) // tiles
    panel = [matrix[:, j * step : (j + 1) * step] for j in range(tiles)]
    bases = []
    for k in range(tiles):
        bases.append(submit(orthogonal, panel[k]))
        for j in range(k + 1, tiles):
            panel[j] = submit(project, bases[k], panel[j])
    return submit(side_by_side, *bases)
