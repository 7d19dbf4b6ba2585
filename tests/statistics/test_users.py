"""Hashes of users never change, and samples keep every user below their threshold."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streameval.statistics.intervals import Audience
from streameval.statistics.users import Users, UsersOptions, user_hashes
from streameval.statistics.vocabulary import Items
from tests.effort import every_case
from tests.metrics.user_hash import user_hash
from tests.statistics.kinds import state

HERE = np.array([0])

GOLDEN = {
    "": 0x9CA066F1A4AB2EEA,
    "7": 0x55AF9F64B44494BC,
    "u1": 0x5AC40738A89A7526,
    "zoë": 0x674D0BBAC964ADE2,
    "0123456789abcdef": 0xE361C0EE22B655CD,
    "a" * 40: 0x9E4977B57CE8E07C,
}
"""Fixed, because states have user groups: another hash would move users between groups."""


@every_case(("user", "expected"), GOLDEN.items())
def test_the_hash_of_a_user_never_changes(user: str, expected: int) -> None:
    assert user_hashes([user]).tolist() == [expected]


@given(st.lists(st.text(st.characters(codec=None, exclude_categories=())) | st.integers()))
def test_a_batch_is_hashed_as_each_of_its_users(users: list[str | int]) -> None:
    assert user_hashes(users).tolist() == [user_hash(user) for user in users]


@every_case(
    "pattern", ["{}", "user{}", "{:032x}", "{:08d}@example.org", "{0:04x}-{0:04x}", "k{}\0"]
)
def test_sequential_users_fall_into_groups_evenly(pattern: str) -> None:
    users = 20_000
    hashes = user_hashes([pattern.format(number) for number in range(users)])
    shifted = [hashes >> np.uint64(by) for by in (0, 32, 64 - 10)]
    for bits, groups in product(shifted, (16, 64, 256, 1024)):
        found = np.bincount((bits & np.uint64(groups - 1)).astype(np.int64), minlength=groups)
        expected = users / groups
        chi2 = float(((found - expected) ** 2).sum() / expected)
        freedom = groups - 1
        assert abs(chi2 - freedom) < 5 * (2 * freedom) ** 0.5


def _counted(hashes: list[int], most: int) -> Users:
    users = Users(UsersOptions(max_users=most), Items())
    for each in hashes:
        users.add(HERE, np.array([each], np.uint64))
    return users


@given(st.lists(st.integers(0, 2**64 - 1), max_size=60), st.integers(1, 20))
def test_a_sample_has_every_user_below_its_threshold(hashes: list[int], most: int) -> None:
    (found,) = _counted(hashes, most).view(HERE)
    assert found.hashes.tolist() == sorted({each for each in hashes if each < found.threshold})
    assert found.hashes.size <= most or found.threshold <= 2**11
    assert found.threshold == 2**64 or len({e for e in hashes if e < 2 * found.threshold}) > most


hashes = st.lists(st.integers(0, 2**64 - 1), max_size=40)


@given(hashes, hashes, st.integers(1, 20))
def test_samples_merge_to_that_of_all_users(first: list[int], second: list[int], most: int) -> None:
    left, right = _counted(first, most), _counted(second, most)
    left.merge(right)
    assert state(left) == state(_counted(first + second, most))
    before = left.version
    left.merge(right)
    assert left.version == before


def test_users_above_the_cap_are_estimated() -> None:
    users = Users(UsersOptions(max_users=1_024), Items())
    users.add(np.zeros(50_000, np.int64), user_hashes([f"u{n % 20_000}" for n in range(50_000)]))
    (found,) = users.view(HERE)
    assert found.hashes.size <= 1_024
    assert 0.8 < Audience(*found, lists=0, anonymous=0).users / 20_000 < 1.2
