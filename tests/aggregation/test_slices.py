from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streameval.aggregation.slices import Slices
from streameval.aggregation.union import Union
from tests.aggregation.counting import Counting, batch

updates = st.lists(
    st.tuples(st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), st.integers(0, 3))
)
partitioned = st.lists(updates, max_size=4)


def slices_of(made: list[tuple[tuple[str, ...], int]]) -> Slices[Counting]:
    slices = Slices(Counting)
    for labels, length in made:
        slices.update(labels, batch(length))
    return slices


def content(
    items: list[tuple[tuple[str, ...], Counting]],
) -> list[tuple[tuple[str, ...], int, int]]:
    return [(labels, counting.events, counting.items) for labels, counting in items]


def test_a_slice_appears_with_its_first_event() -> None:
    slices = Slices(Counting)
    assert (len(slices), slices.get(("a",))) == (0, None)
    slices.update(("a",), batch(1))
    assert list(slices) == [("a",)]


def test_slices_come_sorted_by_their_labels() -> None:
    slices = slices_of([(("b", "a"), 1), (("a", "b"), 1), (("a", "a"), 1), (("B", "a"), 1)])
    assert list(slices) == [("B", "a"), ("a", "a"), ("a", "b"), ("b", "a")]
    assert [labels for labels, _ in slices.items()] == list(slices)


@given(updates, updates)
def test_merged_slices_hold_what_one_would_have_counted(
    left: list[tuple[tuple[str, ...], int]], right: list[tuple[tuple[str, ...], int]]
) -> None:
    merged = slices_of(left).merged([slices_of(right)])
    assert content(merged.items()) == content(slices_of(left + right).items())


def test_merging_leaves_the_parts_alone() -> None:
    left, right = slices_of([(("a",), 1)]), slices_of([(("a",), 2)])
    merged = left.merged([right])
    merged.update(("a",), batch(5))
    assert content(left.items()) == [(("a",), 1, 1)]
    assert content(right.items()) == [(("a",), 1, 2)]


@given(partitioned)
def test_a_union_of_partitions_holds_what_one_would_have_counted(
    parts: list[list[tuple[tuple[str, ...], int]]],
) -> None:
    together = Union[Counting]().of(map(slices_of, parts))
    whole = slices_of([update for part in parts for update in part])
    assert content(together) == content(whole.items())


@given(partitioned, st.integers(0, 3), st.tuples(st.sampled_from("ab"), st.sampled_from("xy")))
def test_a_union_is_never_out_of_date(
    parts: list[list[tuple[tuple[str, ...], int]]], where: int, labels: tuple[str, ...]
) -> None:
    partitions = [slices_of(part) for part in parts] or [Slices(Counting)]
    union = Union[Counting]()
    union.of(partitions)
    partitions[where % len(partitions)].update(labels, batch(2))
    assert content(union.of(partitions)) == content(Union[Counting]().of(partitions))


def test_what_did_not_change_is_not_merged_again() -> None:
    partitions = [slices_of([(("a",), 1), (("b",), 1)]) for _ in range(3)]
    union = Union[Counting]()
    before = dict(union.of(partitions))
    partitions[0].update(("a",), batch(1))
    after = dict(union.of(partitions))
    assert after["b",] is before["b",]
    assert after["a",] is not before["a",]


def test_a_slice_of_one_partition_is_not_copied() -> None:
    slices = slices_of([(("a",), 1)])
    assert Union[Counting]().of([slices, Slices(Counting)]) == slices.items()


def test_a_union_leaves_its_parts_alone() -> None:
    partitions = [slices_of([(("a",), 1)]) for _ in range(3)]
    union = Union[Counting]()
    union.of(partitions)
    union.of(partitions)
    assert [content(slices.items()) for slices in partitions] == [[(("a",), 1, 1)]] * 3
