"""Kinds of items that are counted wrongly; the peers' values and the twins must notice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from streameval.catalogue import rows
from streameval.join import closed_lists
from streameval.metrics import (
    alpha_ndcg,
    category_diversity,
    exposure_share,
    list_diversity,
    miscalibration,
    stratified_recall,
    subtopic_recall,
)
from streameval.statistics import placements
from streameval.statistics.placements import Placements
from tests.contract import laws
from tests.contract.metric_cases import stream
from tests.join import test_odd_records
from tests.metrics import test_who_gets_what as peers
from tests.mutation.mistake import Mistake, around, replaced
from tests.strategies import texts_of

EVENTS = stream()


def _twin(name: str, k: int | None = 2) -> Callable[[], None]:
    return partial(laws.equals_its_twin, texts_of(name, k), EVENTS)


def _is(text: str, expected: float) -> Callable[[], None]:
    def law() -> None:
        assert peers.value_of(text) == pytest.approx(expected, abs=1e-9)

    return law


def _whole_items(kept: Any) -> Any:
    """Each kind of an item counts as much as an only kind."""

    def amounts(items: Any, attribute: Any) -> dict[str, float]:
        having = [attribute.of(item) for item in items]
        counted = {
            kind: sum(kind in kinds for kinds in having) for kinds in having for kind in kinds
        }
        assert counted.keys() == kept(items, attribute).keys()
        return {kind: float(count) for kind, count in counted.items()}

    return amounts


def _renumbered(kept: Any) -> Any:
    return lambda event, k: [*enumerate((item for _, item in kept(event, k)), start=1)]


def _smallest_first(kept: Any) -> Any:
    """Among equal gains the smallest id: ids are renamed so that their order is reversed."""

    def greedy(kinds: dict[Any, Any], k: int | None, alpha: float) -> Any:
        renamed = {f"{number:04}": kinds[item] for number, item in enumerate(sorted(kinds)[::-1])}
        return kept(renamed, k, alpha)

    return greedy


def _everywhere(items: Any, _: Any, wanted: set[Any]) -> list[int]:
    return [place for place, item in enumerate(items) if item in wanted]


def _one_code(patch: pytest.MonkeyPatch) -> None:
    """One number for all kinds; nothing of it stays in the cache of their tuples."""
    patch.setattr(placements, "kind_code", lambda _: 1)
    patch.setattr(placements, "_codes_of", lambda kinds: (1,) * len(kinds))


MISTAKES = (
    Mistake(
        "an item of several kinds counts fully for each",
        peers.test_random_worlds_have_the_values_of_the_peers,
        around(miscalibration, "amounts_by_kind", _whole_items),
    ),
    Mistake(
        "an entropy of kinds that count fully",
        _is("category_diversity@3", 1.150575747),
        around(category_diversity, "amounts_by_kind", _whole_items),
    ),
    Mistake(
        "more smoothing of the history",
        _is("miscalibration@3", 0.559167675),
        replaced(miscalibration, "_SMOOTHING", 0.02),
    ),
    Mistake(
        "the divergence of the list from the history",
        _is("miscalibration@3", 0.559167675),
        around(
            miscalibration,
            "_divergence",
            lambda kept: lambda pairs: kept((q, p) for p, q in pairs),
        ),
    ),
    Mistake(
        "every hit is new",
        _is("alpha_ndcg@3", 0.639453846),
        around(alpha_ndcg._Worth, "take", lambda _: alpha_ndcg._Worth.of),
    ),
    Mistake(
        "the smallest id first among equal gains",
        peers.test_random_worlds_have_the_values_of_the_peers,
        around(alpha_ndcg, "_greedy", _smallest_first),
    ),
    Mistake(
        "kinds of the hits below rank k",
        _is("subtopic_recall@3", 0.75),
        replaced(subtopic_recall, "distinct_items", lambda event, _: event.recommendations),
    ),
    Mistake(
        "ranks of exposure that are renumbered",
        _twin("exposure_share", None),
        around(exposure_share, "placed_items", _renumbered),
    ),
    Mistake(
        "items interacted with below a gain of 0",
        _twin("stratified_recall"),
        replaced(stratified_recall, "gains_of", lambda acts: dict.fromkeys(acts, 1.0)),
    ),
    Mistake(
        "pairs of a list cut at k",
        _twin("partial_auc"),
        around(
            rows.RankedHits,
            "right_pairs",
            lambda kept: lambda self, hits: kept(self._replace(before=[0]), hits),
        ),
    ),
    Mistake(
        "every hit counts, not the first k",
        _twin("pap", 1),
        around(
            rows.RankedHits,
            "right_pairs",
            lambda kept: lambda self, _: kept(self, None),
        ),
    ),
    Mistake(
        "shown for hit",
        _is("group_disparity(over=hits)@3", 0.850223304),
        replaced(Placements, "hits", Placements.shown),
    ),
    Mistake(
        "a hit at each place of a repeated item",
        peers.test_a_repeated_item_is_shown_at_each_place_and_hit_once,
        replaced(placements, "_hits", _everywhere),
    ),
    Mistake(
        "kinds that are one",
        _is("group_disparity@3", 0.784107732),
        _one_code,
    ),
    Mistake(
        "an unknown history that is empty",
        test_odd_records.test_histories_survive_the_join_and_a_restart_in_any_batches,
        around(
            closed_lists,
            "_history",
            lambda kept: lambda buffer: lambda bucket, place: kept(buffer)(bucket, place) or [],
        ),
    ),
    Mistake(
        "kinds of which any is enough",
        _is("list_diversity(by=genre)@3", 0.479609370),
        around(
            list_diversity,
            "_unlike_kinds",
            lambda kept: lambda kinds: kept([frozenset([*of_item][:1]) for of_item in kinds]),
        ),
    ),
)
