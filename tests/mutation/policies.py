"""Estimates for another policy that promise what the log cannot know; tests must notice."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any

from msgspec.structs import replace

from streameval.accumulator import readings
from streameval.accumulator.overlap import Overlap
from streameval.catalogue import importance
from streameval.statistics import users
from tests.metrics import test_policies as policies
from tests.mutation.mistake import Mistake, around, replaced


def _by_count(kept: Any) -> Any:
    """The sum of weighted rewards divided by the number of lists."""

    def divided(reading: Any, below: float) -> Any:
        return kept(reading, float(reading.count) if below else below)

    return divided


def _with_total(kept: Any) -> Any:
    """A ratio that is exported as a sum and a count, as means are."""

    def divided(reading: Any, below: float) -> Any:
        return replace(kept(reading, below), total=reading.total)

    return divided


def _by_list(kept: Any) -> Any:
    """Each list in a group of its own, as if all were of different users."""
    numbers = count()
    return lambda users: kept([f"list {next(numbers)}" for _ in users])


MISTAKES = (
    Mistake(
        "an interval by list",
        policies.test_the_interval_of_users_who_come_often_is_wider_than_that_of_as_many_users,
        around(users, "user_hashes", _by_list),
    ),
    Mistake(
        "snips as a sum and a count",
        policies.test_with_overlap_an_estimate_has_an_interval_of_its_value,
        around(readings, "_divided", _with_total),
    ),
    Mistake(
        "an estimate from few effective rewards has an interval",
        policies.test_with_too_few_effective_rewards_there_is_a_sentence_and_no_interval,
        replaced(readings, "lacking", lambda _: None),
    ),
    Mistake(
        "the gate looks at the rewards only, which are alike where a heavy list has none",
        partial(policies.test_one_heavy_list_is_no_overlap_with_a_reward_and_without, 8),
        replaced(
            Overlap,
            "rewards",
            property(lambda overlap: overlap.rewarded.value * overlap.share.count),
        ),
    ),
    Mistake(
        "a mean weight other than 1 is trusted",
        policies.test_a_mean_weight_that_is_not_1_is_not_trusted,
        replaced(readings, "distrust", lambda *_: None),
    ),
    Mistake(
        "nobody says what a clip takes",
        policies.test_a_clipped_estimate_says_what_the_clip_takes,
        replaced(readings, "clip_note", lambda _: None),
    ),
    Mistake(
        "snips is divided by the number of lists",
        policies.test_single_items_give_the_published_numbers,
        around(readings, "_divided", _by_count),
    ),
    Mistake(
        "marginal chances stand for chances given the items above",
        policies.test_slates_give_the_published_numbers,
        replaced(importance, "accumulate", lambda ratios, _: ratios),
    ),
)
