"""Simulated lists and interactions as two logs: delayed, repeated, out of order and invalid.

The lists, and what is clicked in them, are those of `simulator.records` by seed; time runs more
slowly, so that windows have something to do. Times are milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from sys import intern
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np

from streameval.sources.options import SimulatorOptions
from streameval.sources.simulator import EPOCH, ITEMS, LENGTH, Record, records

WINDOW: Final = 30 * 60_000
"""An interaction belongs to a list if it comes so long after it, or sooner."""

LATENESS: Final = 5 * 60_000
"""A record so much older than the newest one before it in its log is late."""

GAINS: Final[Mapping[str, float]] = {"click": 1.0, "cart": 3.0, "purchase": 10.0}
IGNORED: Final = "view"

_OWN: Final = 0x73747265616D73
"""Apart from the numbers of blocks, which seed the lists."""

_BEGIN: Final = int(EPOCH.timestamp() * 1000)
_NAMES: Final = {"control": "a", "placebo": "a", "treatment": "b"}
_TO_CART, _TO_PURCHASE = 0.4, 0.5
_CLICK, _CART, _VIEW, _RETRY, _LATER = 60_000, 120_000, 10_000, 30_000, 300_000
_INTERVAL: Final = 4_000
"""Between lists."""

_DELAY: Final = 1_500_000
"""Longest time from a list to an interaction with it; within the window."""

_DISORDER: Final = 60_000
"""By which a record may be written after its time; within the lateness."""

_VIEWS: Final = 0.5
"""Of each list on average; a type that is ignored."""

_AGAIN, _LATE, _INVALID = 0.02, 0.01, 0.005
"""Shares of records that are written again, and late; and of further ones that are invalid."""

_ORPHANS, _OUTSIDE = 0.02, 0.02
"""Shares of further interactions: without a list, and with an item that their list lacks."""


class Impression(msgspec.Struct, frozen=True, gc=False):
    """A list, as it is written when it is shown."""

    ts: int
    request_id: str
    user: str
    recommendations: list[str]
    variant: str


class Interaction(msgspec.Struct, frozen=True, gc=False):
    """What a user did with an item, as it is written then."""

    ts: int
    request_id: str
    user: str
    item: str
    type: str
    event_id: str = ""


class Streams(NamedTuple):
    """Both logs in the order in which they are written; bytes are records that are invalid."""

    impressions: Sequence[Impression | bytes]
    interactions: Sequence[Interaction | bytes]


T = TypeVar("T", Impression, Interaction)
_Random: TypeAlias = np.random.Generator
_Shown: TypeAlias = tuple[Impression, list[str]]
"""A list, and what is clicked in it."""


def streams(lists: int, seed: int, *, invalid: bool = True) -> Streams:
    """Both logs; a function of the arguments alone.

    `lists`: how many are shown. `invalid`: whether there are records that are none.

    Example:
        >>> [each.request_id for each in streams(2, 0, invalid=False).impressions]
        ['r0-0', 'r0-0', 'r0-1']
    """
    random = np.random.default_rng([seed, _OWN])
    shown = list(_shown(lists, seed))
    done = _numbered(seed, _interactions(random, shown))
    broken = _INVALID if invalid else 0.0
    alone = [impression for impression, _ in shown]
    return Streams(
        impressions=_log(random, broken, alone, lambda each: _retried(random, each)),
        interactions=_log(random, broken, done, lambda each: each),
    )


def line(record: Impression | Interaction | bytes) -> bytes:
    """A record as it is written, without the newline."""
    return record if isinstance(record, bytes) else msgspec.json.encode(record)


def _shown(lists: int, seed: int) -> Iterator[_Shown]:
    decode = msgspec.json.Decoder(Record).decode
    made = records(SimulatorOptions(seed=seed, events=lists))
    for number, record in enumerate(map(decode, made)):
        impression = Impression(
            ts=_BEGIN + number * _INTERVAL,
            request_id=f"r{record.event_id}",
            user=intern(record.user),
            recommendations=list(map(intern, record.recommendations)),
            variant=_NAMES[record.variant],
        )
        yield impression, record.interactions


def _interactions(random: _Random, shown: Sequence[_Shown]) -> list[Interaction]:
    done = [
        _done(impression, item, kind, after)
        for impression, clicked in shown
        for item in clicked
        for kind, after in _path(random)
    ]
    lists = [impression for impression, _ in shown]
    outside = _number(_OUTSIDE, len(done))
    orphans = _number(_ORPHANS, len(done))
    views = [_view(random, each) for each in lists for _ in range(random.poisson(_VIEWS))]
    done += [_outside(random, _one(random, lists)) for _ in range(outside)]
    done += [_orphan(random, _one(random, lists), gone=n % 2 == 0) for n in range(orphans)]
    return done + views


def _path(random: _Random) -> Iterator[tuple[str, int]]:
    """A click; now and then a cart after it; now and then a purchase after that, maybe much."""
    after = min(int(random.exponential(_CLICK)), _DELAY)
    yield "click", after
    if random.random() < _TO_CART:
        after += _up_to(random, min(_CART, _DELAY - after))
        yield "cart", after
        if random.random() < _TO_PURCHASE:
            yield "purchase", after + _up_to(random, _DELAY - after)


def _outside(random: _Random, shown: Impression) -> Interaction:
    while (item := f"item-{random.integers(ITEMS)}") in shown.recommendations:
        pass
    return _done(shown, item, "click", _up_to(random, _DELAY))


def _orphan(random: _Random, shown: Impression, *, gone: bool) -> Interaction:
    item = shown.recommendations[random.integers(LENGTH)]
    if gone:
        never = msgspec.structs.replace(shown, request_id=f"{shown.request_id}-never-shown")
        return _done(never, item, "click", _up_to(random, _CLICK))
    return _done(shown, item, "purchase", WINDOW + 1 + _up_to(random, WINDOW))


def _view(random: _Random, shown: Impression) -> Interaction:
    item = shown.recommendations[random.integers(LENGTH)]
    return _done(shown, item, IGNORED, _up_to(random, _VIEW))


def _done(shown: Impression, item: str, kind: str, after: int) -> Interaction:
    return Interaction(shown.ts + after, shown.request_id, shown.user, item, kind)


def _numbered(seed: int, done: Sequence[Interaction]) -> list[Interaction]:
    ordered = sorted(done, key=lambda each: each.ts)
    replace = msgspec.structs.replace
    return [replace(each, event_id=f"e{seed}-{n}") for n, each in enumerate(ordered)]


def _retried(random: _Random, shown: Impression) -> Impression:
    """The same request again: the same record, or one of a little later."""
    after = _up_to(random, _RETRY) if random.random() < 0.5 else 0
    return msgspec.structs.replace(shown, ts=shown.ts + after)


def _log(
    random: _Random, invalid: float, found: Sequence[T], again: Callable[[T], T]
) -> list[T | bytes]:
    """Each is written soon after its time, but for those that are held back."""
    many = len(found)
    turns: list[tuple[int, T | bytes]] = [
        (each.ts + _up_to(random, _DISORDER), each) for each in found
    ]
    for place in _some(random, _LATE, many):
        turn, each = turns[place]
        turns[place] = turn + LATENESS + _up_to(random, _LATER), each
    for place in _some(random, _AGAIN, many):
        twin = again(found[place])
        turns.append((twin.ts + _up_to(random, _DISORDER), twin))
    for number, place in enumerate(_some(random, invalid, many)):
        turns.append((found[place].ts, _broken(line(found[place]), number)))
    return [each for _, each in sorted(turns, key=itemgetter(0))]


def _broken(record: bytes, number: int) -> bytes:
    """Half of a record, one without a time, and one with a word for it, by turns."""
    ways = (
        record[: len(record) // 2],
        record.replace(b'"ts":', b'"tz":', 1),
        record.replace(b'"ts":', b'"ts":"soon","tz":', 1),
    )
    return ways[number % len(ways)]


def _some(random: _Random, share: float, of: int) -> list[int]:
    chosen: list[int] = random.choice(of, _number(share, of), replace=False).tolist() if of else []
    return sorted(chosen)


def _number(share: float, of: int) -> int:
    """At least one where there is a share of anything."""
    return min(of, max(1, round(share * of))) if share else 0


def _one(random: _Random, lists: Sequence[Impression]) -> Impression:
    return lists[int(random.integers(len(lists)))]


def _up_to(random: _Random, longest: int) -> int:
    return int(random.integers(longest, endpoint=True))
