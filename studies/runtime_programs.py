"""Twelve ordinary programs, each written once, that run on fixed devices or on the executor.

A program gets `run`, which calls a function or submits it, and `get`, which returns a result in main memory. Its
data is made by NumPy from a seed. Sizes are chosen so that neither device is always the better one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import hybrid_scheduler as hs

Run = Callable[..., Any]
Get = Callable[[Any], Any]


class Program(NamedTuple):
    """A program: its name, its data, its body, and the tolerance of its results between devices."""

    name: str
    make: Callable[[np.random.Generator], dict[str, Any]]
    body: Callable[[Run, Get, dict[str, Any]], Any]
    tolerance: float = 1e-3


def _normal(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape, dtype=np.float32)


# ------------------------------------------------------------------------------------------ k-means


@hs.auto
def kmeans_step(points: Any, centres: Any) -> Any:
    """Assign points to their nearest centres and return the means."""
    xp = hs.array_namespace(points)
    distance = xp.sum(centres * centres, axis=1) - 2.0 * (points @ centres.T)
    label = xp.argmin(distance, axis=1)
    member = xp.astype(label[:, None] == xp.arange(centres.shape[0], device=points.device), points.dtype)
    return (member.T @ points) / (xp.sum(member, axis=0)[:, None] + 1e-6)


def _kmeans(run: Run, get: Get, data: dict[str, Any]) -> Any:
    found = []
    for points, start in data["cases"]:
        centres = start
        for _ in range(20):
            centres = run(kmeans_step, points, centres)
        found.append(get(centres))
    return found


# ------------------------------------------------------------------------------------------ linear algebra


@hs.auto
def principal_values(data: Any) -> Any:
    """Return the singular values of centred data."""
    xp = hs.array_namespace(data)
    centred = data - xp.mean(data, axis=0)
    return xp.linalg.svd(centred, full_matrices=False)[1]


@hs.auto
def gram(data: Any) -> Any:
    """Return the regularised Gram matrix."""
    xp = hs.array_namespace(data)
    return data.T @ data + xp.eye(data.shape[1], dtype=data.dtype, device=data.device)


@hs.auto
def ridge_solution(matrix: Any, data: Any, target: Any) -> Any:
    """Solve the normal equations by Cholesky."""
    xp = hs.array_namespace(matrix)
    lower = xp.linalg.cholesky(matrix)
    half = xp.linalg.solve(lower, data.T @ target)
    return xp.linalg.solve(lower.T, half)


def _pca(run: Run, get: Get, data: dict[str, Any]) -> Any:
    return [get(one) for one in [run(principal_values, one) for one in data["cases"]]]


def _ridge(run: Run, get: Get, data: dict[str, Any]) -> Any:
    found = []
    for matrix, target in data["cases"]:
        found.append(run(ridge_solution, run(gram, matrix), matrix, target))
    return [get(one) for one in found]


# ------------------------------------------------------------------------------------------ images and signals


@hs.auto
def shrink(images: Any) -> Any:
    """Halve images by averaging."""
    xp = hs.array_namespace(images)
    n, c, h, w = images.shape
    return xp.mean(xp.reshape(images, (n, c, h // 2, 2, w // 2, 2)), axis=(3, 5))


@hs.auto
def blur(images: Any) -> Any:
    """Blur by a box of three pixels in both directions."""
    rows = (images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]) / 3.0
    return (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]) / 3.0


@hs.auto
def convolve(images: Any, weights: Any) -> Any:
    """Normalise, convolve with 3 x 3 kernels, and pool: one layer of a small network."""
    xp = hs.array_namespace(images)
    centred = images - xp.mean(images, axis=(1, 2, 3), keepdims=True)
    h, w = images.shape[2] - 2, images.shape[3] - 2
    patches = xp.stack([centred[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=2)
    flat = xp.reshape(xp.permute_dims(patches, (0, 3, 4, 1, 2)), (-1, weights.shape[0]))
    features = xp.maximum(flat @ weights, xp.zeros(1, dtype=images.dtype, device=images.device))
    return xp.mean(xp.reshape(features, (images.shape[0], h * w, -1)), axis=1)


def _images(run: Run, get: Get, data: dict[str, Any]) -> Any:
    found = [run(convolve, run(blur, run(shrink, one)), data["weights"]) for one in data["cases"]]
    return [get(one) for one in found]


@hs.auto
def band_energy(signals: Any, response: Any) -> Any:
    """Filter signals in the frequency domain and return their energy."""
    xp = hs.array_namespace(signals)
    spectrum = xp.fft.rfft(signals) * response
    return xp.sum(xp.fft.irfft(spectrum) ** 2, axis=1)


def _fft(run: Run, get: Get, data: dict[str, Any]) -> Any:
    return [get(one) for one in [run(band_energy, *case) for case in data["cases"]]]


# ------------------------------------------------------------------------------------------ graphs and chance


def _pagerank_gpu(starts: Any, targets: Any, weights: Any, rank: Any) -> Any:
    import torch

    matrix = torch.sparse_csr_tensor(starts, targets, weights, size=(len(rank), len(rank)))
    return 0.15 / len(rank) + 0.85 * (matrix @ rank)


@hs.task(gpu=_pagerank_gpu)
def pagerank_step(starts: Any, targets: Any, weights: Any, rank: Any) -> Any:
    """Follow the links of a graph once."""
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((weights, targets, starts), shape=(len(rank), len(rank)))
    return np.float32(0.15 / len(rank)) + np.float32(0.85) * (matrix @ rank)


def _pagerank(run: Run, get: Get, data: dict[str, Any]) -> Any:
    found = []
    for starts, targets, weights, rank in data["cases"]:
        for _ in range(30):
            rank = run(pagerank_step, starts, targets, weights, rank)
        found.append(rank)
    return [get(one) for one in found]


def _option_gpu(paths: int, steps: int, seed: int) -> Any:
    import torch

    where = "cuda" if torch.cuda.is_available() else "cpu"
    draw = torch.Generator(where).manual_seed(seed)
    walk = torch.randn((steps, paths), generator=draw, device=where)
    price = 100.0 * torch.exp(0.2 * math.sqrt(1 / steps) * walk.sum(0) - 0.02)
    return torch.clamp(price - 105.0, min=0.0).mean()


@hs.task(gpu=_option_gpu)
def option_price(paths: int, steps: int, seed: int) -> Any:
    """Price an option by simulated paths."""
    walk = np.random.default_rng(seed).standard_normal((steps, paths), dtype=np.float32)
    price = 100.0 * np.exp(0.2 * math.sqrt(1 / steps) * walk.sum(0) - 0.02)
    return np.maximum(price - 105.0, 0.0).mean()


def _options(run: Run, get: Get, data: dict[str, Any]) -> Any:
    return [get(one) for one in [run(option_price, *case) for case in data["cases"]]]


# ------------------------------------------------------------------------------------------ search and sorting


def _nearest_gpu(queries: Any, points: Any, k: int) -> Any:
    distance = (points * points).sum(1) - 2.0 * (queries @ points.T)
    return distance.topk(k, largest=False).values.sum(1)


@hs.task(gpu=_nearest_gpu)
def nearest(queries: Any, points: Any, k: int) -> Any:
    """Return the summed distances to the k nearest points, up to the query's own norm."""
    distance = (points * points).sum(1) - 2.0 * (queries @ points.T)
    return np.partition(distance, k, axis=1)[:, :k].sum(1)


def _neighbours(run: Run, get: Get, data: dict[str, Any]) -> Any:
    return [get(one) for one in [run(nearest, queries, data["points"], 10) for queries in data["cases"]]]


@hs.auto
def distinct(values: Any) -> Any:
    """Count distinct values by sorting."""
    xp = hs.array_namespace(values)
    ordered = xp.sort(values)
    return xp.sum(xp.astype(ordered[1:] != ordered[:-1], xp.int64)) + 1


def _sorting(run: Run, get: Get, data: dict[str, Any]) -> Any:
    return [get(one) for one in [run(distinct, one) for one in data["cases"]]]


# ------------------------------------------------------------------------------------------ networks and tables


@hs.auto
def attention(query: Any, key: Any, value: Any) -> Any:
    """Return scaled dot-product attention, summed over positions."""
    xp = hs.array_namespace(query)
    score = query @ xp.permute_dims(key, (0, 2, 1)) / math.sqrt(query.shape[2])
    score = xp.exp(score - xp.max(score, axis=2, keepdims=True))
    return xp.sum((score / xp.sum(score, axis=2, keepdims=True)) @ value, axis=1)


def _attention(run: Run, get: Get, data: dict[str, Any]) -> Any:
    return [get(one) for one in [run(attention, *case) for case in data["cases"]]]


@hs.auto
def train_step(first: Any, second: Any, inputs: Any, target: Any) -> Any:
    """Take one step of gradient descent on a network with one hidden layer."""
    xp = hs.array_namespace(inputs)
    hidden = xp.tanh(inputs @ first)
    error = (hidden @ second - target) / inputs.shape[0]
    inner = (error @ second.T) * (1.0 - hidden * hidden)
    return first - 0.05 * (inputs.T @ inner), second - 0.05 * (hidden.T @ error)


@hs.auto
def loss(weights: Any, inputs: Any, target: Any) -> Any:
    """Return the mean squared error."""
    xp = hs.array_namespace(inputs)
    return xp.mean((xp.tanh(inputs @ weights[0]) @ weights[1] - target) ** 2)


@hs.auto
def train_epoch(weights: Any, inputs: Any, target: Any) -> Any:
    """Take ten steps of gradient descent."""
    first, second = weights
    for _ in range(10):
        first, second = train_step(first, second, inputs, target)
    return first, second


def _training(run: Run, get: Get, data: dict[str, Any]) -> Any:
    found = []
    for first, second, inputs, target in data["cases"]:
        weights: Any = (first, second)
        for _ in range(10):
            weights = run(train_epoch, weights, inputs, target)
        found.append(get(run(loss, weights, inputs, target)))
    return found


def _group_sum_gpu(keys: Any, values: Any, groups: int) -> Any:
    import torch

    return torch.zeros(groups, dtype=values.dtype, device=values.device).index_add_(0, keys, values)


@hs.task(gpu=_group_sum_gpu)
def group_sum(keys: Any, values: Any, groups: int) -> Any:
    """Sum values by key."""
    return np.bincount(keys, weights=values, minlength=groups).astype(values.dtype)


def _groups(run: Run, get: Get, data: dict[str, Any]) -> Any:
    return [get(one) for one in [run(group_sum, *case, data["groups"]) for case in data["cases"]]]


# ------------------------------------------------------------------------------------------ data


def _cases(make: Callable[..., Any], *sizes: Any) -> Callable[[np.random.Generator], dict[str, Any]]:
    def build(rng: np.random.Generator) -> dict[str, Any]:
        return {"cases": [make(rng, *(size if isinstance(size, tuple) else (size,))) for size in sizes]}

    return build


def _links(rng: np.random.Generator, nodes: int) -> tuple[Any, ...]:
    degree = rng.integers(4, 12, nodes)
    starts = np.concatenate(([0], np.cumsum(degree))).astype(np.int64)
    targets = rng.integers(0, nodes, starts[-1])
    weights = np.full(starts[-1], 1 / 8, np.float32)
    return starts, targets, weights, np.full(nodes, 1 / nodes, np.float32)


def _image_data(scale: int) -> Callable[[np.random.Generator], dict[str, Any]]:
    def build(rng: np.random.Generator) -> dict[str, Any]:
        shapes = [(1, 3, 32, 32), (4, 3, 64, 64), (16, 3, 128, 128), (32, 3, 256, 256)]
        chosen = shapes if scale > 1 else shapes[:2]
        return {"cases": [_normal(rng, *shape) for shape in chosen * 6], "weights": _normal(rng, 27, 16) / 5}

    return build


def programs(scale: int = 8) -> list[Program]:
    """Return the programs; sizes grow with the scale, 8 for a GPU and 1 for tests."""
    small = scale == 1

    def sizes(*all_sizes: Any) -> list[Any]:
        return list(all_sizes[:2]) if small else list(all_sizes)

    def neighbours(rng: np.random.Generator) -> dict[str, Any]:
        cases = [_normal(rng, n, 64) for n in sizes(8, 16, 256, 1024) * 3]
        return {"points": _normal(rng, 2_000 * scale**2, 64), "cases": cases}

    def groups(rng: np.random.Generator) -> dict[str, Any]:
        def one(n: int) -> Any:
            return rng.integers(0, 1000, n), rng.standard_normal(n)

        return {"groups": 1000, "cases": [one(n) for n in sizes(3_000, 30_000, 300_000, 3_000_000) * 6]}

    def attend(rng: np.random.Generator, length: int) -> Any:
        return tuple(_normal(rng, 8, length, 64) for _ in range(3))

    def train(rng: np.random.Generator, batch: int, width: int) -> Any:
        return (
            _normal(rng, 32, width) / 8, _normal(rng, width, 1) / math.sqrt(width),
            _normal(rng, batch, 32), _normal(rng, batch, 1),
        )  # fmt: skip

    def points(rng: np.random.Generator, n: int) -> Any:
        data = _normal(rng, n, 16)
        return data, data[:20].copy()

    def signals(rng: np.random.Generator, n: int, length: int) -> Any:
        return _normal(rng, n, length), np.linspace(1, 0, length // 2 + 1, dtype=np.float32)

    draws = [(n, 64, 7 * i) for i, n in enumerate(sizes(1_000, 4_000, 30_000, 200_000, 400_000) * 4)]
    return [
        Program("k-means", _cases(points, *sizes(500, 5_000, 100_000, 400_000)), _kmeans, 0.05),
        Program("PCA by SVD", _cases(_normal, *sizes((200, 32), (400, 64), (2000, 256), (6000, 768))), _pca),
        Program(
            "Gram matrix and Cholesky solve",
            _cases(
                lambda rng, n, d: (_normal(rng, n, d), _normal(rng, n, 1)),
                *sizes((300, 30), (1000, 64), (20_000, 512), (60_000, 1024)),
            ),
            _ridge,
            0.02,
        ),
        Program("image pipeline", _image_data(scale), _images),
        Program(
            "FFT filtering", _cases(signals, *sizes((4, 1024), (16, 4096), (128, 16384), (256, 65536)) * 3), _fft
        ),
        Program("PageRank", _cases(_links, *sizes(1_000, 10_000, 100_000, 1_000_000)), _pagerank),
        Program("Monte Carlo option pricing", lambda _: {"cases": draws}, _options, 0.2),
        Program("nearest neighbours", neighbours, _neighbours, 0.02),
        Program(
            "sorting and unique",
            _cases(
                lambda rng, n: rng.integers(0, n, n).astype(np.int32),
                *sizes(1_000, 30_000, 1_000_000, 4_000_000) * 3,
            ),
            _sorting,
        ),
        Program("attention", _cases(attend, *sizes(16, 64, 256, 1024, 2048) * 3), _attention, 0.02),
        Program(
            "gradient descent",
            _cases(train, *sizes((64, 16), (256, 64), (2048, 256), (8192, 512))),
            _training,
            0.05,
        ),
        Program("group-by sum", groups, _groups, 0.02),
    ]
