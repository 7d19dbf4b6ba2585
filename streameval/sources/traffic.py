"""The model behind simulated traffic: users with tastes, two rankers, position-biased clicks.

Every list has 20 of 1,200 items. At each rank stands an item of a genre that its user likes, with
a probability that depends on the variant: control shows liked items anywhere, treatment shows
as many but nearer to the top. Which of them is drawn without replacement, popular items first.
A user looks at rank r with probability 1/r, and clicks what is seen with a probability that
depends on whether it is liked. Clicks at different ranks are independent, so the true values
have a closed form (`expected_ctr`, `expected_hit_rate`).
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

Variant: TypeAlias = Literal["control", "treatment"]

VARIANTS: tuple[Variant, Variant] = ("control", "treatment")
COUNTRIES = ("DE", "FR", "GB", "US")
ITEMS = 1200
LENGTH = 20
BLOCK = 1000
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(milliseconds=10)

_USERS = 2000
_GENRES = 12
_LIKED = 2 * ITEMS // _GENRES
_CLICK_LIKED = 0.30
_CLICK_OTHER = 0.03
_ETA = 1.0
_EXAMINED: NDArray[np.float64] = np.arange(1, LENGTH + 1, dtype=np.float64) ** -_ETA
_SHARE_LIKED = np.stack([np.full(LENGTH, 0.3), np.linspace(0.6, 0.0, LENGTH)])
_RARITY = np.square(np.arange(ITEMS, dtype=np.float32) // _GENRES + 3.0)
_NUMBER_BITS = 11  # hold an item's number
_BEHIND = np.int64(1 << 62)  # above every key
_NAMES = np.array([f"item-{number}" for number in range(ITEMS)], dtype=object)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event as it is written; `ts` becomes ISO-8601."""

    event_id: str
    ts: datetime
    user: str
    variant: str
    country: str
    recommendations: list[str]
    interactions: list[str]


class Audience(NamedTuple):
    """What is fixed of each user, by a hash of the id.

    Attributes:
        hashes: for spreading users over partitions.
        variants: index into VARIANTS.
        countries: index into COUNTRIES.
        dislikes: users x items; whether an item is of a genre that the user does not like.
    """

    hashes: NDArray[np.int64]
    variants: NDArray[np.int64]
    countries: NDArray[np.int64]
    dislikes: NDArray[np.bool_]


class Block(NamedTuple):
    """BLOCK records in order.

    Attributes:
        values: the records' bytes.
        hashes: a hash of each record's user.
    """

    values: list[bytes]
    hashes: NDArray[np.int64]


def click_probabilities(variant: Variant) -> NDArray[np.float64]:
    """The true probability of a click at each rank."""
    liked: NDArray[np.float64] = _SHARE_LIKED[VARIANTS.index(variant)]
    return _EXAMINED * (liked * _CLICK_LIKED + (1.0 - liked) * _CLICK_OTHER)


def expected_ctr(variant: Variant, k: int = LENGTH) -> float:
    """The true share of clicks among the items shown at the first k ranks."""
    return float(click_probabilities(variant)[:k].mean())


def expected_hit_rate(variant: Variant, k: int = LENGTH) -> float:
    """The true share of lists with a click at the first k ranks.

    Example:
        >>> round(expected_hit_rate("treatment", 10) - expected_hit_rate("control", 10), 3)
        0.128
    """
    return float(1.0 - np.prod(1.0 - click_probabilities(variant)[:k]))


def block(seed: int, number: int) -> Block:
    """Records number * BLOCK to (number + 1) * BLOCK - 1; a function of its arguments alone."""
    audience = _audience()
    random = np.random.default_rng([seed, number])
    users = random.integers(_USERS, size=BLOCK)
    liked = random.random((BLOCK, LENGTH)) < _SHARE_LIKED[audience.variants[users]]
    items = _NAMES[_items(random, audience.dislikes[users], liked)]
    click = random.random((BLOCK, LENGTH)) < _EXAMINED * np.where(liked, _CLICK_LIKED, _CLICK_OTHER)
    encode = msgspec.json.Encoder().encode
    records = zip(
        range(number * BLOCK, (number + 1) * BLOCK), users.tolist(), items, click, strict=True
    )
    values = [
        encode(_record(seed, index, user, shown, seen)) for index, user, shown, seen in records
    ]
    return Block(values, audience.hashes[users])


def _items(
    random: np.random.Generator, dislikes: NDArray[np.bool_], liked: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Item numbers per record and rank: of each kind the next by a popularity-weighted draw."""
    keys = random.standard_exponential(dislikes.shape, dtype=np.float32) * _RARITY
    # Bits of a float that is not negative stand in its order; with the number, no two are equal.
    ranked = (keys.view(np.int32).astype(np.int64) << _NUMBER_BITS) | np.arange(ITEMS)
    ranked[dislikes] |= _BEHIND
    kinds = np.split(np.partition(ranked, (LENGTH, _LIKED, _LIKED + LENGTH), axis=1), [_LIKED], 1)
    order = np.hstack([np.sort(kind[:, :LENGTH], axis=1) for kind in kinds])
    nth_liked = np.cumsum(liked, axis=1) - 1
    nth_other = np.cumsum(~liked, axis=1) - 1 + LENGTH
    chosen = np.take_along_axis(order, np.where(liked, nth_liked, nth_other), axis=1)
    return chosen & ((1 << _NUMBER_BITS) - 1)


def _record(
    seed: int, index: int, user: int, items: NDArray[np.object_], click: NDArray[np.bool_]
) -> Record:
    audience = _audience()
    return Record(
        event_id=f"{seed}-{index}",
        ts=EPOCH + index * STEP,
        user=f"user-{user}",
        variant=VARIANTS[audience.variants[user]],
        country=COUNTRIES[audience.countries[user]],
        recommendations=items.tolist(),
        interactions=items[click].tolist(),
    )


@cache
def _audience() -> Audience:
    hashes = np.array([_hash(f"user-{number}") for number in range(_USERS)], dtype=np.int64)
    first = hashes // 8 % _GENRES
    second = (first + 1 + hashes // 128 % (_GENRES - 1)) % _GENRES
    genres = np.arange(ITEMS) % _GENRES
    likes = (genres == first[:, None]) | (genres == second[:, None])
    return Audience(hashes // 65536, hashes % 2, hashes // 2 % len(COUNTRIES), ~likes)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest())
