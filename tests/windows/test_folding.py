"""Which label values are folded depends on the set of values alone, and loses no event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from streameval.decoding.values import MISSING_LABEL
from streameval.engine.windows.labels import (
    OTHER,
    LabelCapOptions,
    LabelCaps,
    SliceAssigner,
    Slices,
)

Pair = tuple[str, str]

values = st.sampled_from([*"abcdefgh", MISSING_LABEL, OTHER])
pairs = st.lists(st.tuples(values, values), max_size=40)
named = st.tuples(st.frozensets(values, max_size=3), st.frozensets(values, max_size=3))
wide = st.builds(LabelCapOptions, cap=st.integers(0, 5), named=named)
narrow = st.builds(
    LabelCapOptions, cap=st.integers(0, 5), named=named, max_series=st.integers(0, 6)
)


def textbook(seen: Sequence[Pair], options: LabelCapOptions) -> Counter[Pair]:
    """Events by slice if all values are known beforehand: the smallest hashes stay."""
    kept = []
    for index, mine in enumerate(options.named):
        never = mine | {MISSING_LABEL, OTHER}
        others = {pair[index] for pair in seen} - never
        kept.append(never | set(sorted(others, key=_hash)[: options.cap]))
    folded = [tuple(v if v in kept[i] else OTHER for i, v in enumerate(pair)) for pair in seen]
    return Counter((left, right) for left, right in folded)


def counted(seen: Sequence[Pair], options: LabelCapOptions, step: int) -> Counter[Pair]:
    """Events by slice, counted batch by batch."""
    slices, counter = Slices(), Counter[int]()
    assigner = SliceAssigner(LabelCaps(options, 2), slices)
    for start in range(0, len(seen), step):
        batch = seen[start : start + step]
        numbers, moves = assigner.assign(batch)
        for old, new in moves.items():
            counter[new] += counter.pop(old, 0)
        counter.update(numbers.tolist())
    retained = {slices.labels[number]: count for number, count in counter.items() if count}
    return Counter({(left, right): count for (left, right), count in retained.items()})


@given(pairs, wide, st.integers(1, 40), st.permutations(range(40)))
def test_the_smallest_hashes_stay_for_any_order_and_batches(
    seen: list[Pair], options: LabelCapOptions, step: int, order: list[int]
) -> None:
    shuffled = [seen[index] for index in order if index < len(seen)]
    assert counted(shuffled, options, step) == textbook(seen, options)


@given(pairs, narrow, st.integers(1, 40))
def test_kept_combinations_do_not_depend_on_batches(
    seen: list[Pair], options: LabelCapOptions, step: int
) -> None:
    assert counted(seen, options, step) == counted(seen, options, 1)
    assert sum(counted(seen, options, step).values()) == len(seen)


def test_a_combination_known_before_one_of_its_values_is_folded_is_admitted_again() -> None:
    seen = [("b", "p"), ("b", "s"), ("a", "r"), ("b", "s")]
    options = LabelCapOptions(cap=1, named=(frozenset("ab"), frozenset()), max_series=1)
    assert counted(seen, options, 1) == {("b", OTHER): 2, (OTHER, OTHER): 2}
    for step in (2, 3, 4):
        assert counted(seen, options, step) == counted(seen, options, 1)


def test_a_combination_that_is_folded_twice_in_a_batch_is_where_two_batches_leave_it() -> None:
    retained, folded = sorted("ab", key=_hash)
    seen = [(folded, folded), (retained, folded), (retained, retained)]
    options = LabelCapOptions(cap=1, named=(frozenset(), frozenset()))
    for step in (1, 2, 3):
        assert counted(seen, options, step) == textbook(seen, options)


@given(pairs, st.integers(0, 5), st.integers(0, 6))
def test_no_more_combinations_stay_than_allowed(seen: list[Pair], cap: int, most: int) -> None:
    options = LabelCapOptions(cap=cap, max_series=most)
    assert (
        len(counted(seen, options, 7).keys() - {(OTHER, OTHER), (MISSING_LABEL, MISSING_LABEL)})
        <= most
    )


@given(st.lists(pairs, min_size=1, max_size=4), wide)
def test_merged_foldings_keep_what_one_would_have_kept(
    parts: list[list[Pair]], options: LabelCapOptions
) -> None:
    foldings = [_caps(part, options) for part in parts]
    total = _caps([pair for part in parts for pair in part], options)
    first, *others = foldings
    assert first.union(others).state() == total.state()
    assert foldings[-1].union(reversed(foldings[:-1])).state() == total.state()


@given(pairs, narrow)
def test_a_restored_folding_continues(seen: list[Pair], options: LabelCapOptions) -> None:
    caps, again = _caps(seen, options), LabelCaps(options, 2)
    again.load(msgspec.convert(caps.state(), type=_State))
    assert again.state() == caps.state()
    for pair in seen:
        assert again.admit(pair).key == caps.admit(pair).key


def test_a_folded_value_stays_folded() -> None:
    caps = _caps(
        [("a", MISSING_LABEL), ("b", MISSING_LABEL), ("c", MISSING_LABEL)], LabelCapOptions(cap=1)
    )
    states = []
    for _ in range(3):
        for value in "abc":
            caps.admit((value, MISSING_LABEL))
        states.append(caps.state())
    assert states[0] == states[1] == states[2]


def test_a_stream_of_new_values_takes_no_more_memory() -> None:
    slices = Slices()
    assigner = SliceAssigner(LabelCaps(LabelCapOptions(cap=5, max_series=9), 2), slices)
    for start in range(0, 20_000, 1_000):
        batch = [(f"user-{number}", "x") for number in range(start, start + 1_000)]
        assigner.assign(batch)
    assert len(slices.labels) < 80
    assert len(assigner._numbers) < 6_000


_State = tuple[list[tuple[int | None, list[str]]], tuple[int | None, list[tuple[str, ...]]]]


def _caps(seen: Sequence[Pair], options: LabelCapOptions) -> LabelCaps:
    caps = LabelCaps(options, 2)
    for pair in seen:
        caps.admit(pair)
    return caps


def _hash(value: str) -> bytes:
    return blake2b(msgspec.msgpack.encode(value), digest_size=8).digest()
