"""Lists seen through the items of a value, and counts by value, that are read wrongly."""

from __future__ import annotations

from typing import Any

from streameval.accumulator import table
from streameval.catalogue.items import Attribute
from streameval.events import Batch, ItemGroup
from streameval.statistics.exposures import Exposures
from tests.metrics import test_items_of_a_value as tests
from tests.mutation.mistake import Mistake, around, replaced


def _renumbered(among: Any) -> Any:
    def of(batch: Batch, group: ItemGroup, last: int | None = None) -> Batch:
        part: Batch = among(batch, group)
        shown = [items[:last] for items in part.recommendations]
        return Batch(recommendations=shown, interactions=part.interactions)

    return of


def _listed_only(group: Any) -> Any:
    """The items that have the value in the table: none that the table lacks."""

    def of(attribute: Attribute, value: str) -> ItemGroup:
        group(attribute, value)
        rows = attribute._items.items()
        return ItemGroup(frozenset(item for item, values in rows if value in values))

    return of


MISTAKES = (
    Mistake(
        "the items of a group are ranked anew",
        tests.test_an_item_of_a_group_keeps_its_rank_whatever_stands_above_it,
        around(Batch, "among", _renumbered),
    ),
    Mistake(
        "an item without popularity is in no tier",
        tests.test_an_item_that_popularity_does_not_have_belongs_to_the_tail,
        around(Attribute, "group", _listed_only),
    ),
    Mistake(
        "a sample of the items has a value by provider",
        tests.test_by_an_attribute_a_thinned_sample_has_no_value_and_says_what_to_do,
        replaced(Exposures, "estimated", property(lambda _: False)),
    ),
    Mistake(
        "a state of other tiers is loaded",
        tests.test_states_of_other_tiers_do_not_merge_and_a_version_may_grow,
        replaced(table, "inputs_by_statistic", lambda *_: {}),
    ),
)
