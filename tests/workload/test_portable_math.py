"""The portable functions agree with the C library's, and their bits never change."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from hybrid_scheduler.workload import SCENARIOS, cholesky, generate, layered
from hybrid_scheduler.workload.portable_math import cos_turns, exp, log, sin_turns
from hybrid_scheduler.workload.random_columns import draw_chunks, join_chunks

RNG = np.random.default_rng(7)
SPREAD = RNG.uniform(-40.0, 40.0, 20_000)


@pytest.mark.parametrize("values", [np.exp(SPREAD), 1.0 - RNG.random(20_000) * 1e-3, 2.0 ** np.arange(-60, 60)])
def test_log_is_accurate_to_a_few_last_places(values):
    expected = np.log(values)
    assert np.all(np.abs(log(values) - expected) <= 3 * np.spacing(np.abs(expected)))


def test_log_of_one_is_exactly_zero():
    assert log(np.array([1.0]))[0] == 0.0


def test_exp_is_accurate_to_a_few_last_places():
    assert np.all(np.abs(exp(SPREAD) - np.exp(SPREAD)) <= 3 * np.spacing(np.exp(SPREAD)))


def test_sine_and_cosine_of_turns():
    turns = np.concatenate([RNG.uniform(-1, 1, 20_000), [0.0, 0.25, -0.25, 0.5, 0.75, 1.0]])
    assert np.allclose(sin_turns(turns), np.sin(2 * np.pi * turns), rtol=0, atol=2e-15)
    assert np.allclose(cos_turns(turns), np.cos(2 * np.pi * turns), rtol=0, atol=2e-15)
    assert sin_turns(np.array([1e6]))[0] == 0.0, "whole turns cancel"


def digest(workload) -> str:
    bits = hashlib.sha256()
    for column in workload.columns().values():
        bits.update(column.astype(column.dtype.newbyteorder("<")).tobytes())
    return bits.hexdigest()[:16]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mixed", "2a9b080ca6c31fb4"),
        ("lognormal", "eb49e42dbb4830ae"),
        ("pareto", "0245a3404d8ffee3"),
        ("bursty", "23bdb1e1f5ac301f"),
        ("diurnal", "95e166cd73dfcc7e"),
    ],
)
def test_the_same_seed_gives_the_same_bits_everywhere(name, expected):
    # Rates are given here, so that nothing but this package's own arithmetic is in the digest.
    scenario = SCENARIOS[name]
    workload = join_chunks(list(draw_chunks([scenario.regime(5000, 8.0)], 2026, 5000)))
    assert digest(workload) == expected


def test_graphs_have_the_same_bits_everywhere():
    assert digest(layered(200, 10, 5)) == "38e079b83a159f39"
    assert digest(cholesky(5)) == "c63e06a9bc5e3306"


def test_the_digest_sees_a_different_seed():
    small = SCENARIOS["small"]
    assert digest(generate(small, 50, 1)) != digest(generate(small, 50, 2))
