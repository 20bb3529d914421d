"""GPU variants against the library: values, types, shapes, memory order, tuples, and what they leave to it."""

import warnings

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import scipy.signal
import scipy.spatial.distance
from hypothesis import given, settings
from hypothesis import strategies as st

from hybrid_scheduler.intercept.call_case import CallCase, memory_order
from hybrid_scheduler.intercept.helper_process import TorchBackend, compute
from hybrid_scheduler.intercept.shared_block import SharedBlock
from hybrid_scheduler.intercept.variants import DeclinedError, all_names, variant_named

BACKEND = TorchBackend("cpu")
LIBRARIES = {"numpy": np, "scipy": scipy}
SIZE = 1 << 22


def function_named(name):
    found = LIBRARIES[name.partition(".")[0]]
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def on_gpu(name, *args, **kwargs):
    """Compute a call as the helper does; None if it belongs to the library."""
    variant = variant_named(name)
    case = CallCase(variant, args, kwargs)
    try:
        case.read_form(variant, function_named(name), args, kwargs)
    except Exception:
        return None
    if not case.outputs:
        return None
    memory = bytearray(SIZE)
    offset = 0
    sent = []
    for value in args:
        if isinstance(value, np.ndarray):
            order = memory_order(value)
            shape = tuple(value.shape[axis] for axis in order)
            np.ndarray(shape, value.dtype, memory, offset)[...] = value.transpose(order)
            sent.append(("array", offset, shape, value.dtype.str, order))
            offset += -(-value.nbytes // 4096) * 4096
        else:
            sent.append(value)
    forms = [(form.dtype, form.axes) for form in case.outputs]
    try:
        answer = compute(BACKEND, memory, name, sent, kwargs, forms, (offset, SIZE - offset))
    except (DeclinedError, RuntimeError):
        return None
    values = []
    for form, value in zip(case.outputs, answer, strict=True):
        if isinstance(value, int):
            values.append(form.kind(value))
            continue
        start, shape, dtype, _ = value
        array = np.ndarray(shape, dtype, memory, start)
        values.append(array[()] if form.axes is None else array.transpose(np.argsort(form.axes)))
    return case.pack(values)


def matrix(generator, shape, dtype, layout="C", kind="any"):
    """Return random numbers in a memory layout; square ones are far from singular."""
    values = generator.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.normal(size=shape)
    if len(shape) >= 2 and shape[-1] == shape[-2] and kind != "any":
        values = values + 3 * shape[-1] * np.eye(shape[-1])
        if kind == "symmetric":
            values = values + values.conj().swapaxes(-1, -2)
        if kind == "triangular":
            values = np.tril(values)
    values = np.asarray(values, dtype)
    if layout == "F":
        return np.asfortranarray(values)
    if layout == "slice":
        wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    return values


def same(expected, given):
    """Check value, type, shape and memory order of a result, or of each part of it."""
    if isinstance(expected, tuple):
        assert type(given) is type(expected)
        for one, other in zip(expected, given, strict=True):
            same(one, other)
        return
    assert type(given) is type(expected)
    if isinstance(expected, int):
        assert given == expected
        return
    assert given.dtype == expected.dtype
    assert given.shape == expected.shape
    if isinstance(expected, np.ndarray) and all(n > 1 for n in expected.shape):
        assert memory_order(given) == memory_order(expected)
        assert given.flags.writeable == expected.flags.writeable
    if expected.dtype.kind in "fc" and expected.size:
        precision = 2e-3 if expected.dtype.char in "fF" else 1e-9
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(given, expected, rtol=precision, atol=precision * scale)
    else:
        np.testing.assert_array_equal(given, expected)


generators = st.integers(0, 1000).map(np.random.default_rng)
dtypes = st.sampled_from("fdFD")
layouts = st.sampled_from(["C", "F", "slice"])
sides = st.integers(2, 9)

SOLVERS = ["numpy.linalg.inv", "numpy.linalg.det", "numpy.linalg.slogdet", "scipy.linalg.inv", "scipy.linalg.det"]
SYMMETRIC = ["numpy.linalg.cholesky", "scipy.linalg.cholesky", "numpy.linalg.eigvalsh"]
RECTANGULAR = [
    ("numpy.linalg.svd", {"compute_uv": False}),
    ("scipy.linalg.svd", {"compute_uv": False}),
    ("scipy.linalg.svdvals", {}),
    ("numpy.linalg.qr", {}),
    ("numpy.linalg.qr", {"mode": "complete"}),
    ("scipy.linalg.qr", {"mode": "economic"}),
    ("scipy.linalg.qr", {}),
    ("numpy.linalg.pinv", {}),
    ("scipy.linalg.pinv", {}),
]


@pytest.mark.parametrize("name", SOLVERS + SYMMETRIC)
@given(generators, dtypes, layouts, sides)
def test_square_matrices_give_what_the_library_gives(name, generator, dtype, layout, n):
    a = matrix(generator, (n, n), dtype, layout, "symmetric" if name in SYMMETRIC else "regular")
    given = on_gpu(name, a)
    if dtype in variant_named(name).dtypes:
        assert given is not None
        same(function_named(name)(a), given)


@pytest.mark.parametrize(("name", "options"), RECTANGULAR)
@given(generators, st.sampled_from("fd"), layouts, sides, sides)
def test_decompositions_give_what_the_library_gives(name, options, generator, dtype, layout, m, n):
    a = matrix(generator, (m, n), dtype, layout)
    given = on_gpu(name, a, **options)
    if given is not None:
        same(function_named(name)(a, **options), given)
    else:
        assert "pinv" in name  # nearly of lower rank


@pytest.mark.parametrize("name", ["numpy.linalg.solve", "scipy.linalg.solve", "scipy.linalg.solve_triangular"])
@given(generators, dtypes, layouts, sides, st.sampled_from([(), (1,), (3,)]))
def test_equations_give_what_the_library_gives(name, generator, dtype, layout, n, columns):
    a = matrix(generator, (n, n), dtype, layout, "triangular" if "triangular" in name else "regular")
    b = matrix(generator, (n, *columns), dtype, layout if columns else "C")
    options = {"lower": True} if "triangular" in name else {}
    given = on_gpu(name, a, b, **options)
    assert given is not None
    same(function_named(name)(a, b, **options), given)


@given(generators, dtypes, layouts, sides)
def test_decompositions_of_long_matrices_belong_to_them(generator, dtype, layout, n):
    a = matrix(generator, (3 * n, n), dtype, layout)
    for name in ("numpy.linalg.svd", "scipy.linalg.svd"):
        expected = function_named(name)(a, full_matrices=False)
        u, values, vh = on_gpu(name, a, full_matrices=False)
        same(expected[1], values)
        assert [memory_order(part) for part in (u, vh)] == [memory_order(expected[0]), memory_order(expected[2])]
        np.testing.assert_allclose((u * values) @ vh, a, atol=1e-3 * n)
        same(function_named(name)(a, compute_uv=False), on_gpu(name, a, compute_uv=False))


@pytest.mark.parametrize("name", ["numpy.linalg.lstsq", "scipy.linalg.lstsq"])
@given(generators, st.sampled_from("fd"), sides, st.sampled_from([(), (2,)]))
def test_least_squares_give_what_the_library_gives(name, generator, dtype, n, columns):
    a = matrix(generator, (n + 5, n), dtype)
    b = matrix(generator, (n + 5, *columns), dtype)
    given = on_gpu(name, a, b)
    if given is not None:
        same(function_named(name)(a, b), given)


@pytest.mark.parametrize(
    ("name", "options"),
    [("numpy.linalg.eigh", {}), ("numpy.linalg.eigh", {"UPLO": "U"}), ("scipy.linalg.eigh", {"lower": False}),
     ("numpy.linalg.svd", {"full_matrices": False}), ("scipy.linalg.svd", {"full_matrices": False})],
)  # fmt: skip
@given(generators, dtypes, layouts, sides)
def test_vectors_are_those_of_the_library_apart_from_their_signs(name, options, generator, dtype, layout, n):
    a = matrix(generator, (n, n), dtype, layout, "symmetric")
    expected = function_named(name)(a, **options)
    given = on_gpu(name, a, **options)
    assert type(given) is type(expected)
    for one, other in zip(expected, given, strict=True):
        assert (one.dtype, one.shape, memory_order(one)) == (other.dtype, other.shape, memory_order(other))
    if "eigh" in name:
        whole = np.tril(a) + np.tril(a, -1).conj().T if options.get("UPLO", "L") == "L" else a
        np.testing.assert_allclose((given[1] * given[0]) @ given[1].conj().T, whole, atol=1e-3 * n)
    else:
        np.testing.assert_allclose((given[0] * given[1]) @ given[2], a, atol=1e-3 * n)


@pytest.mark.parametrize("library", ["numpy", "scipy"])
@given(
    generators, dtypes, st.sampled_from(["C", "F", "slice"]), st.lists(st.integers(2, 7), min_size=1, max_size=3),
    st.sampled_from([None, "ortho", "forward"]), st.data(),
)  # fmt: skip
def test_transforms_give_what_the_library_gives(library, generator, dtype, layout, shape, norm, data):
    kind = data.draw(st.sampled_from(["fft", "ifft", "rfft", "irfft"]))
    end = data.draw(st.sampled_from(["", "2", "n"] if len(shape) > 1 else ["", "n"]))
    options = {"norm": norm}
    if not end:
        options["axis"] = data.draw(st.integers(-len(shape), len(shape) - 1))
    elif data.draw(st.booleans()):
        options["axes"] = tuple(data.draw(st.permutations(range(len(shape))))[:2])
    name = f"{library}.fft.{kind}{end}"
    a = matrix(generator, tuple(shape), dtype, layout)
    given = on_gpu(name, a, **options)
    if np.dtype(dtype).char not in variant_named(name).dtypes:
        assert given is None
    elif given is not None:
        same(function_named(name)(a, **options), given)


@given(generators, dtypes, layouts, layouts, sides, sides, sides)
def test_products_give_what_numpy_gives(generator, dtype, first, second, m, k, n):
    a = matrix(generator, (m, k), dtype, first)
    b = matrix(generator, (k, n), dtype, second)
    for name in ("numpy.matmul", "numpy.dot"):
        same(function_named(name)(a, b), on_gpu(name, a, b))
    same(np.tensordot(a, b, axes=1), on_gpu("numpy.tensordot", a, b, axes=1))
    for subscripts in ("ij,jk->ik", "ij,jk->ki", "ij, jk -> i"):
        same(np.einsum(subscripts, a, b), on_gpu("numpy.einsum", subscripts, a, b))
    stack = matrix(generator, (2, m, k), dtype)
    same(np.matmul(stack, b), on_gpu("numpy.matmul", stack, b))
    assert on_gpu("numpy.einsum", "ij,jk", a, b) is None


@given(generators, st.sampled_from("fdbBhilq"), layouts, st.sampled_from([(7,), (4, 6), (3, 2, 5)]), st.data())
def test_sorting_gives_what_numpy_gives(generator, dtype, layout, shape, data):
    a = matrix(generator, shape, "d", layout) * 20
    a = np.abs(a).astype(dtype, order="K") if np.dtype(dtype).kind == "u" else a.astype(dtype, order="K")
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    same(np.sort(a, axis=axis), on_gpu("numpy.sort", a, axis=axis))
    same(np.argsort(a, axis=axis, kind="stable"), on_gpu("numpy.argsort", a, axis=axis, kind="stable"))
    order = on_gpu("numpy.argsort", a, axis)
    if order is not None:
        same(np.argsort(a, axis), order)
    same(np.unique(a), on_gpu("numpy.unique", a))
    same(np.unique(a, return_counts=True), on_gpu("numpy.unique", a, return_counts=True))
    same(np.unique(a, return_inverse=True), on_gpu("numpy.unique", a, return_inverse=True))
    if dtype == "d":
        same(np.median(a), on_gpu("numpy.median", a))
        for q in (0.3, [0.1, 0.5, 0.99], 1.0):
            same(np.quantile(a, q), on_gpu("numpy.quantile", a, q))
        same(np.percentile(a, 37), on_gpu("numpy.percentile", a, 37))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@given(generators, st.sampled_from("fd"), layouts)
def test_single_values_give_what_numpy_gives(generator, dtype, layout):
    a = np.abs(matrix(generator, (5, 4), dtype, layout)) / 4
    for name in all_names():
        if name.count(".") == 1 and len(variant_named(name).run.__code__.co_varnames) == 2:
            same(function_named(name)(a), on_gpu(name, a)) if (given := on_gpu(name, a)) is not None else None
            assert given is not None or not np.isfinite(function_named(name)(a)).all()
    same(np.power(a, 1.3), on_gpu("numpy.power", a, 1.3))
    assert on_gpu("numpy.power", a, 2.0) is None


@pytest.mark.parametrize("name", ["fftconvolve", "oaconvolve", "convolve", "correlate"])
@given(generators, dtypes, st.sampled_from(["full", "same", "valid"]), st.sampled_from([(9,), (8, 7)]), st.data())
@settings(max_examples=40)
def test_convolutions_give_what_scipy_gives(name, generator, dtype, mode, shape, data):
    a = matrix(generator, shape, dtype)
    b = matrix(generator, tuple(data.draw(st.integers(1, n)) for n in shape), dtype)
    options = {"method": "fft"} if name in ("convolve", "correlate") else {}
    given = on_gpu(f"scipy.signal.{name}", a, b, mode, **options)
    assert given is not None
    same(getattr(scipy.signal, name)(a, b, mode, **options), given)


@given(generators, st.sampled_from(["euclidean", "sqeuclidean", "cityblock", "chebyshev"]), sides, sides, sides)
def test_distances_are_those_of_scipy(generator, metric, m, n, k):
    a, b = generator.normal(size=(m, k)), generator.normal(size=(n, k))
    same(scipy.spatial.distance.cdist(a, b, metric), on_gpu("scipy.spatial.distance.cdist", a, b, metric))


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("numpy.linalg.solve", (np.ones((4, 4)), np.ones(4))),
        ("numpy.linalg.inv", (np.zeros((4, 4)),)),
        ("numpy.linalg.inv", (np.full((4, 4), np.nan),)),
        ("numpy.linalg.cholesky", (-np.eye(4),)),
        ("scipy.linalg.cholesky", (np.ones((4, 4)),)),
        ("scipy.linalg.solve", (1.0 / np.add.outer(np.arange(12), np.arange(1, 13)), np.ones(12))),
        ("scipy.linalg.solve_triangular", (np.zeros((4, 4)), np.ones(4))),
        ("numpy.linalg.svd", (np.full((4, 4), np.inf),)),
        ("numpy.linalg.svd", (np.ones((4, 5)),)),
        ("numpy.linalg.lstsq", (np.ones((6, 4)), np.ones(6))),
        ("numpy.linalg.pinv", (np.ones((6, 4)),)),
        ("numpy.matmul", (np.full((4, 4), 1e300), np.full((4, 4), 1e300))),
        ("numpy.exp", (np.full(4, 1e4),)),
        ("numpy.log", (np.zeros(4),)),
        ("numpy.argsort", (np.array([1.0, 1.0, 0.0]),)),
        ("numpy.argsort", (np.array([1.0, np.nan, 0.0]),)),
        ("numpy.unique", (np.array([1.0, np.nan, np.nan]),)),
        ("numpy.median", (np.array([1.0, np.nan]),)),
        ("numpy.sort", (np.array([1 + 2j, 0]),)),
        ("numpy.matmul", (np.ones((4, 4)), np.ones((4, 4), "f"))),
        ("numpy.matmul", (np.ones((4, 4), ">f8"), np.ones((4, 4), ">f8"))),
        ("numpy.matmul", (np.ma.ones((4, 4)), np.ones((4, 4)))),
        ("numpy.matmul", (np.broadcast_to(1.0, (4, 4)), np.ones((4, 4)))),
        ("numpy.matmul", (np.ones((4, 4))[::-1], np.ones((4, 4)))),
        ("numpy.matmul", (np.ones((4, 4)), np.ones((3, 4)))),
        ("numpy.linalg.solve", (np.ones((4, 3)), np.ones(4))),
        ("numpy.fft.fft", (np.ones(4), 8)),
    ],
)
def test_what_the_library_may_refuse_warn_of_or_choose_belongs_to_it(name, args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert on_gpu(name, *args) is None


def test_options_that_a_library_does_not_have_belong_to_it():
    assert on_gpu("numpy.fft.fft", np.ones(8), workers=2) is None
    assert on_gpu("scipy.fft.fft", np.ones(8), workers=2) is not None
    assert on_gpu("numpy.sort", np.ones(8), order="x") is None


def test_sorting_puts_what_is_no_number_last():
    a = np.array([2.0, np.nan, -np.inf, 1.0, np.inf])
    np.testing.assert_array_equal(np.sort(a), on_gpu("numpy.sort", a))


def test_every_variant_is_a_function_of_its_library():
    assert all(callable(function_named(name)) for name in all_names())


def test_a_block_gives_pages_back_when_no_array_uses_them():
    import os

    descriptor = os.memfd_create("test")
    os.ftruncate(descriptor, 1 << 22)
    block = SharedBlock(descriptor, 1 << 22)
    offset, pages = block.put(np.arange(4096.0), (0,))
    block.give_back(offset, pages)
    start, space = block.largest()
    assert (start, space) == (0, 1 << 22)
    array = block.result(*block.take(0, 1 << 20), (1 << 17,), "<f8")
    view = array[5:]
    del array
    assert block.largest()[1] == 3 << 20
    assert block.put(view, (0,)) == (40, None)  # it lies here already
    view[0] = 7.0
    block.make_private()
    assert view[0] == 7.0
    assert block.put(view, (0,))[1] is not None
    del view
    block.largest()
