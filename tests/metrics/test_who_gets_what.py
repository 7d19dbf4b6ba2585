"""A small world of seven lists, whose values the peers' own packages return, to nine digits."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from streameval import Accumulator, Attribute, Event, Popularity
from streameval.catalogue.context import AttributeInputs
from streameval.events import Id
from streameval.events.errors import MetricError, MetricTextError
from streameval.metrics import alpha_ndcg

POPULARITY: Final = Popularity(
    {"i00": 200, "i01": 100, "i02": 67, "i03": 50, "i04": 40, "i05": 33, "i06": 29}
)
_ROWS: Final = (
    ("u1", "6021", "0246", "4163"),
    ("u2", "1402", "024", "4215"),
    ("u2", "5102", "14", None),
    ("u2", "0634", "034", "0543"),
    ("u1", "5102", "5", "0243"),
    ("u0", "2540", "0", "3104"),
    ("u2", "0132", "", "6543"),
)


def _items(digits: str) -> list[str]:
    return [f"i0{digit}" for digit in digits]


WORLD: Final = tuple(
    Event(
        recommendations=_items(shown),
        interactions=_items(clicked),
        history=None if history is None else _items(history),
        user=user,
    )
    for user, shown, clicked, history in _ROWS
)


_GENRES: Final = ("n", "dns", "d", "s", "n", "n", "dns")
ATTRIBUTES: Final[AttributeInputs] = {
    "genre": {f"i0{number}": list(letters) for number, letters in enumerate(_GENRES)},
    "provider": {f"i0{number}": "bolt" if number in (1, 3, 6) else "acme" for number in range(7)},
    "tier": Attribute.tiers(POPULARITY, head=0.0, tail=0.8),
}


def value_of(text: str) -> float:
    accumulator = Accumulator(text, popularity=POPULARITY, attributes=ATTRIBUTES)
    accumulator.update_many(list(WORLD))
    return accumulator.read(text).value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # ir_measures 0.4.3
        ("recall@3", 0.597222222),
        ("stratified_recall(beta=0)@3", 0.597222222),
        # functions of LensKit 2025.8.1
        ("list_diversity(by=genre)@3", 0.479609370),
        # FairRankTune 0.0.7
        ("group_disparity(of=hits,over=interactions,measure=cv)@3", 0.294117647),
        # pandas
        ("exposure_share(among=provider:acme,discount=none)@3", 0.619047619),
        # by hand: no peer computes it as published
        ("stratified_recall@3", 0.552949695),
        ("stratified_recall(beta=1)@3", 0.523109859),
    ],
)
def test_the_value_is_that_of_the_peer(text: str, expected: float) -> None:
    assert value_of(text) == pytest.approx(expected, abs=1e-9)


RECORDED: Final[list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("kinds.json").read_text(encoding="utf-8")
)
"""Random worlds, with what pyndeval 0.0.8, scipy, LensKit 2025.8.1, FairRankTune 0.0.7 return."""


def values_of(world: Mapping[str, Any]) -> dict[str, float]:
    accumulator = Accumulator(
        *(f"{text}@5" for text in world["values"]),
        attributes={"genre": world["genre"], "provider": world["provider"]},
    )
    for row in world["lists"]:
        accumulator.update(row["shown"], row["clicked"], history=row["history"])
    return {text: accumulator.read(f"{text}@5").value for text in world["values"]}


def test_random_worlds_have_the_values_of_the_peers() -> None:
    assert len(RECORDED) == 24
    for number, world in enumerate(RECORDED):
        assert values_of(world) == pytest.approx(world["values"], abs=1e-9), number


def test_the_ideal_order_of_many_interactions_needs_few_looks_at_an_item(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(3)
    genres = {f"i{at}": draw.sample("abcdefgh", draw.randint(1, 3)) for at in range(600)}
    looks, worth_of = count(), alpha_ndcg._RemainingGains.of
    monkeypatch.setattr(
        alpha_ndcg._RemainingGains, "of", lambda worth, item: next(looks) and worth_of(worth, item)
    )
    accumulator = Accumulator("alpha_ndcg", attributes={"genre": genres})
    accumulator.update(["i5"], [*genres])
    # Each rank of a plain search looks at all items that are left: 180,000 times.
    assert next(looks) < 40_000


def test_the_ideal_order_takes_the_most_valuable_item_and_of_equal_ones_the_largest() -> None:
    draw = random.Random(7)
    for size in (1, 5, 40):
        genres = {f"i{at:02}": draw.sample("abcd", draw.randint(1, 3)) for at in range(size)}
        for k, alpha in ((None, 0.5), (3, 0.3), (None, 0.0), (7, 1.0)):
            left, worths, above = sorted(genres, reverse=True), list[float](), Counter[str]()
            while left and (k is None or len(worths) < k):
                values = [
                    math.fsum((1 - alpha) ** above[kind] for kind in genres[item]) for item in left
                ]
                worths.append(max(values))
                above.update(genres[left.pop(values.index(max(values)))])
            kinds: dict[Id, tuple[str, ...]] = {
                item: tuple(names) for item, names in genres.items()
            }
            assert [*alpha_ndcg._greedy(kinds, k, alpha)] == worths


def test_a_thousand_groups_have_a_disparity_and_one_more_is_refused() -> None:
    owners = {f"i{number}": f"p{number}" for number in range(1_001)}
    accumulator = Accumulator("group_disparity@1", attributes={"provider": {**owners, "i0": "p1"}})
    accumulator.update(["i1"], [])
    assert accumulator.read("group_disparity@1").value == 0.0
    with pytest.raises(MetricTextError, match=r"1,001 values.*use gini\(by=provider\)"):
        Accumulator("group_disparity@1", attributes={"provider": owners})


def test_a_repeated_item_is_shown_at_each_place_and_hit_once() -> None:
    texts = ("group_disparity(of=hits,over=shown,measure=difference)@3", "group_disparity(of=hits)")
    accumulator = Accumulator(*texts, attributes={"provider": {"a": "acme", "b": "bolt"}})
    accumulator.update(["a", "a", "b"], {"a": 1.0, "b": 0.0})
    assert [accumulator.read(text).value for text in texts] == [1 / 2, 0.0]


def test_positions_are_the_ranks_that_exposure_counts() -> None:
    attributes = {"tier": {"a": "tail", "b": "head"}}
    accumulator = Accumulator("exposure_share@2", "exposure_share", attributes=attributes)
    accumulator.update(["a", "b"], [], [3, 1])
    assert accumulator.read("exposure_share@2").value == 0.0
    assert accumulator.read("exposure_share").value == 0.5 / 1.5


def test_lists_whose_history_or_items_have_no_kind_are_left_out() -> None:
    accumulator = Accumulator("miscalibration@2", attributes={"genre": {"a": "news", "b": "drama"}})
    for history in (None, [], ["x"]):
        accumulator.update(["a", "b"], [], history=history)
    accumulator.update(["x"], [], history=["a"])
    reading = accumulator.read("miscalibration@2")
    assert math.isnan(reading.value)
    accumulator.update(["a", "x"], [], history=["a", "x"])
    assert (accumulator.read("miscalibration@2").value, reading.lists) == (0.0, 4)


def test_a_wrong_value_is_named_with_its_attribute_and_item() -> None:
    with pytest.raises(MetricError, match=r"attribute 'genre'.*item 'b'.*1.5 is not a text"):
        Accumulator("mrr", attributes={"genre": {"a": "news", "b": [1.5]}})  # type: ignore[dict-item]  # what is refused
