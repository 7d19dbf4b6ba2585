"""A world's lists as events, counted by accumulators: the same bits however they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from streameval import Accumulator, Batch, Intervals, compare
from streameval.statistics.intervals import GroupSums
from streameval.statistics.users import user_hashes
from tests.simulation.worlds import Traffic, Users, World

METRICS = ("ctr", "mrr")
_DAY = 86_400_000_000
_LISTS = 1_500

Counted = Callable[[Sequence[Batch]], GroupSums]
"""What is known of the mrr of batches that are counted one after the other and merged."""


def by_accumulators(batches: Sequence[Batch]) -> GroupSums:
    """As the package counts."""
    found = _merged(batches).groups("mrr")
    assert found is not None
    return found


def by_floats(batches: Sequence[Batch]) -> GroupSums:
    """Values added up as they come, group by group."""
    whole = by_accumulators(batches)
    sums = np.zeros_like(whole.numerators)
    for batch in batches:
        part = np.zeros_like(sums)
        days = np.searchsorted(whole.days, np.array(batch.times) // _DAY)
        groups = user_hashes([str(user) for user in batch.users or ()]) & np.uint64(255)
        for row, clicked in enumerate(batch.interactions):
            if clicked:
                rank = 1 + list(batch.recommendations[row]).index(next(iter(clicked)))
                part[days[row], groups[row]] += 1.0 / rank
        sums += part
    return whole._replace(numerators=sums)


def _merged(batches: Sequence[Batch]) -> Accumulator:
    found = Accumulator(*METRICS, intervals=Intervals())
    for batch in batches:
        part = Accumulator(*METRICS, intervals=Intervals())
        part.update_many(batch)
        found.merge(part)
    return found


def events_of(traffic: Traffic, names: Sequence[str], lists: int = _LISTS) -> Batch:
    """The first lists as events of named users."""
    items = [f"i{place}" for place in range(traffic.clicks.shape[1])]
    clicks = traffic.clicks[:lists]
    return Batch(
        recommendations=[items] * len(clicks),
        interactions=[[items[at] for at in np.flatnonzero(row)] for row in clicks],
        users=[names[user] for user in traffic.user[:lists].tolist()],
        times=(traffic.day[:lists] * _DAY).tolist(),
    )


def kept(world: World, seed: int, counted: Counted) -> Iterator[tuple[str, bool]]:
    """Each promise about bits, and about too few users, with whether it is kept."""
    random = np.random.default_rng([seed, 4])
    users = Users.drawn(world, random)
    names = world.names(random, world.users)
    everywhere = np.ones_like(users.comes)
    batch, other = (events_of(users.traffic(world, random, everywhere), names) for _ in range(2))
    whole = counted([batch])
    order = random.permutation(len(batch)).tolist()
    yield "shuffled, the same bits", _same(counted([batch.take(order)]), whole)
    parts = [batch.take(order[start::3]) for start in range(3)]
    yield "split and merged, the same bits", _same(counted(parts), whole)
    one, two, back = _merged([batch]), _merged([other]), _restored(batch, order)
    same = all(one.read(metric) == back.read(metric) for metric in METRICS)
    yield "killed and restored, the same readings with intervals", same
    pairs = (compare(each, two, metric) for metric in METRICS for each in (one, back))
    found = list(pairs)
    yield "killed and restored, the same comparison", found[::2] == found[1::2]
    yield from _few(batch)


def _same(one: GroupSums, other: GroupSums) -> bool:
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


def _restored(batch: Batch, order: Sequence[int]) -> Accumulator:
    """Counted in two lives, with a state as text between them."""
    half = len(order) // 2
    before = _merged([batch.take(order[:half])])
    after = Accumulator(*METRICS, intervals=Intervals())
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    after.update_many(batch.take(order[half:]))
    return after


def _few(batch: Batch) -> Iterator[tuple[str, bool]]:
    """Of nobody, one user, five users, and without a click."""
    names = list(dict.fromkeys(batch.users or ()))
    worlds = {f"{count} users": names[:count] for count in (0, 1, 5)}
    for name, chosen in worlds.items():
        rows = [row for row, user in enumerate(batch.users or ()) if user in chosen]
        yield f"{name}, no interval", _silent(batch.take(rows))
    yield (
        "no click, no interval",
        _silent(
            Batch(
                recommendations=batch.recommendations,
                interactions=[[]] * len(batch),
                users=batch.users,
            )
        ),
    )


def _silent(batch: Batch) -> bool:
    found = _merged([batch])
    return all(
        found.read(metric).interval is None
        and compare(found, found, metric).low is None
        and compare(found, found, metric).verdict == "too few users"
        for metric in METRICS
    )
