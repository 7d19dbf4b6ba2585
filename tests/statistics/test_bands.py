"""Bounds of estimates from a sample of the items hold for any distribution of counts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from streameval import Accumulator
from streameval.statistics.bands import Band, evenness, logarithms
from tests.effort import every_case, thorough

ITEMS = 2_000
Counts = NDArray[np.int64]


def zipf(random: np.random.Generator, power: float, shown: int = 100_000) -> Counts:
    shares = np.arange(1, ITEMS + 1) ** -power
    found = random.multinomial(shown, shares / shares.sum())
    return np.asarray(found[found > 0], np.int64)


POPULATIONS: dict[str, Callable[[np.random.Generator], Counts]] = {
    "alike": lambda random: np.full(ITEMS, random.integers(1, 9)),
    "nearly alike": lambda random: random.poisson(20, ITEMS) + 1,
    "one giant": lambda random: np.append(random.poisson(3, ITEMS) + 1, 20_000),
    "skewed": lambda random: zipf(random, 0.7),
    "very skewed": lambda random: zipf(random, 1.5),
}


def slow_sums(counts: Counts) -> tuple[float, float]:
    logarithm = math.fsum(n * math.log(n) for n in counts.tolist())
    in_order = sorted(counts.tolist(), reverse=True)
    pairs = sum((2 * place + 1) * n for place, n in enumerate(in_order))
    return logarithm, pairs / sum(in_order)


@every_case("population", POPULATIONS)
@every_case("share", [0.5, 0.125])
def test_the_bounds_contain_the_truth(population: str, share: float) -> None:
    for seed in range(10 if thorough() else 1):
        random = np.random.default_rng(seed)
        counts = POPULATIONS[population](random)
        kept = random.random(counts.size) < share
        known, rest = np.sort(counts[kept]), int(counts[~kept].sum())
        logarithm, even = slow_sums(counts)
        low, high = logarithms(known, share, rest)
        assert low <= logarithm <= high
        for least in (rest, 0):
            low, high = evenness(known, share, least, rest)
            assert low <= even <= high


def test_many_similar_items_have_narrow_bounds() -> None:
    random = np.random.default_rng(1)
    counts = random.poisson(20, 200_000) + 1
    kept = random.random(counts.size) < 0.5
    known, rest = np.sort(counts[kept]), int(counts[~kept].sum())
    low, high = evenness(known, 0.5, rest, rest)
    assert high / low < 1.1
    low, high = logarithms(known, 0.5, rest)
    assert (high - low) / counts.sum() < 0.5


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(0, 2**32))
def test_no_population_within_the_band_exceeds_its_sums(found: list[int], seed: int) -> None:
    known, rest = np.sort(np.array(found)), 40
    band, random = Band(known, 0.5, rest), np.random.default_rng(seed)
    unknown, left = band.low.copy(), rest - float(band.length @ band.low)
    for at in random.permutation(band.length.size).tolist():
        taken = max(0.0, min(band.high[at] - band.low[at], left / band.length[at]))
        unknown[at], left = unknown[at] + taken, left - taken * band.length[at]
    spread = np.repeat(band.kept + unknown, band.length.astype(np.int64))
    weights = [
        c * math.log(c) - (c - 1) * math.log(max(c - 1, 1)) for c in range(1, spread.size + 1)
    ]
    low, high = logarithms(known, 0.5, rest)
    assert low - 1e-9 <= float(spread @ np.array(weights)) <= high + 1e-9
    low, high = evenness(known, 0.5, rest, rest)
    assert low - 1e-9 <= float((spread**2).sum()) / (sum(found) + rest) <= high + 1e-9


METRICS = ("gini@1", "shannon_entropy@1", "shannon_entropy(unit=nats,divisor=items)@1")
KNOWN = ("gini(over=catalog)@1", "gini(over=catalog,unknown=count)@1")


def test_estimates_from_a_sample_of_items_have_bounds() -> None:
    for seed in range(5 if thorough() else 1):
        random = np.random.default_rng(seed)
        counts = zipf(random, 0.7, 20_000)
        ids = [f"{seed}-{item}" for item in range(counts.size)]
        lists = [
            [item] for item, count in zip(ids, counts.tolist(), strict=True) for _ in range(count)
        ]
        catalog = frozenset(ids[::2])
        exact = Accumulator(*METRICS, *KNOWN, catalog=catalog)
        sampled = Accumulator(*METRICS, *KNOWN, catalog=catalog, max_items=500)
        for accumulator in (exact, sampled):
            accumulator.update_many([(shown, []) for shown in lists])
        parts = [sampled.copy() for _ in range(2)]
        parts[0].reset()
        parts[1].reset()
        parts[0].update_many([(shown, []) for shown in lists[::3]])
        parts[1].update_many([(shown, []) for row, shown in enumerate(lists) if row % 3])
        parts[1].merge(parts[0])
        assert parts[1].state_dict() == sampled.state_dict()
        for metric in exact.metrics:
            truth, found = exact.read(metric.text), sampled.read(metric.text)
            assert (truth.estimated, truth.low, truth.high) == (False, None, None)
            assert found.estimated
            assert found.low is not None
            assert found.high is not None
            assert found.low <= found.value <= found.high
            assert found.low <= truth.value <= found.high
