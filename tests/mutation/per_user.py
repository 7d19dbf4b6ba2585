"""Means over users that depend on the order of lists, or have users who are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streameval.statistics.sampling import HashSample
from streameval.statistics.user_sums import UserSums
from tests.contract import test_per_user
from tests.mutation.mistake import Mistake, around, with_its_cases


def _in_order_of_arrival(_: Any) -> Any:
    """A reservoir: the first users stay, whoever they are."""

    def units(sample: HashSample, codes: Any) -> Any:
        arrived: dict[int, int] = sample.__dict__.setdefault("arrived", {})
        places = [arrived.setdefault(code, len(arrived)) for code in codes.tolist()]
        return np.array(places, np.float64) / 2.0**10

    return units


def _named(kept: Any) -> Any:
    def take(statistic: UserSums, users: Any, *given: Any) -> None:
        kept(statistic, users._replace(named=np.ones_like(users.named)), *given)

    return take


def _every_list(kept: Any) -> Any:
    """The mean over lists, as if it were one over users."""

    def over(statistic: UserSums, metric: str, cells: Any) -> Any:
        sample = kept(statistic, metric, cells)
        return sample._replace(means=np.repeat(sample.means, 1 + np.arange(sample.means.size) % 3))

    return over


def _any_order() -> None:
    with pytest.MonkeyPatch.context() as patch:
        law: Any = test_per_user.test_any_order_split_and_load_gives_the_same_bits
        law(most=3, monkeypatch=patch)


MISTAKES = (
    Mistake(
        "users stay by their arrival",
        _any_order,
        around(HashSample, "unit_hashes", _in_order_of_arrival),
    ),
    Mistake(
        "a list without a user is a user",
        test_per_user.test_lists_without_a_user_are_in_no_mean_and_cost_the_interval,
        around(UserSums, "take", _named),
    ),
    Mistake(
        "a user counts by the number of lists",
        with_its_cases(test_per_user.test_values_equal_those_of_ir_measures_averaged_by_pandas),
        around(UserSums, "over", _every_list),
    ),
)
