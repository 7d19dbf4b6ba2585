"""One set of rules at every door: the same events give the same value, error and warning."""

from __future__ import annotations

import ast
import pickle
import random
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import streameval
from streameval import Accumulator, Intervals
from streameval.events.errors import InvalidEventError, SuspiciousEventsWarning
from tests.cli.program import run
from tests.contract.doors import (
    COUNTS,
    DOORS,
    ITEMS,
    MAKERS,
    METRICS,
    PYTHON,
    TEXT,
    Count,
    Door,
    DoorInputs,
)
from tests.effort import sampled

More = dict[str, list[Any]]

every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


def doors_with(names: str, cases: Mapping[str, tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Each door with each case; a third of the pairs in `tests/run`, with each door and case."""
    pairs = sampled(((case, door) for case in cases for door in DOORS), 3)
    parameters = [
        pytest.param(DOORS[door], *cases[case], id=f"{case}-{door}") for case, door in pairs
    ]
    return pytest.mark.parametrize(f"door, {names}", parameters)


MISPLACED = "has an item after the end of its list"
MARKED = "have a 0 or 1 for each recommendation or item"
PADDED = "is it padding?"
SWAPPED = "are recommendations and interactions swapped?"
CONSTANT = "have all items at one position"
NO_CHANCES = "have scores outside 0 to 1"
MARKS = "are they marks?"
WARNINGS = (PADDED, SWAPPED, CONSTANT, NO_CHANCES, MARKS)

TRUE = DoorInputs([[5, 6], [7], [8, 9, 10], []], [[6], [], [3], [4]])


def _padded(pad: Any) -> DoorInputs:
    """The same events, with lists padded to three items and interactions to two."""
    lists = [[*items, *[pad] * (3 - len(items))] for items in TRUE.shown]
    interactions = [[*items, *[pad] * (2 - len(items))] for items in TRUE.acts]
    return DoorInputs(lists, interactions)


def _many(shown_pad: list[Any], acts_pad: list[Any], rows: int = 60) -> DoorInputs:
    """Lists of 2 to 5 items and one interaction, with something at the end of each."""
    dice = random.Random(7)
    recommended = [dice.sample(range(100, 999), dice.randint(2, 5)) for _ in range(rows)]
    return DoorInputs(
        [[*items, *shown_pad] for items in recommended],
        [[dice.randint(100, 999), *acts_pad] for _ in range(rows)],
    )


@every_door
def test_minus_one_and_empty_text_at_the_end_are_padding(door: Door, tmp_path: Path) -> None:
    expected = DOORS["update"](TRUE, tmp_path).values
    assert expected == (0.25, 1 / 6, pytest.approx(1 / 8))
    assert door(_padded(-1), tmp_path).values == expected
    texts = _padded(-1).as_text()
    assert door(texts, tmp_path).values == expected
    blank = [
        [["" if item == "-1" else item for item in items] for items in column]
        for column in texts[:2]
    ]
    assert door(DoorInputs(blank[0], blank[1]), tmp_path).values == expected


@doors_with(
    "bad",
    {
        "leading": (DoorInputs([[-1, 5, 6]], [[5, 6]]),),
        "inner": (DoorInputs([[5, -1, 6]], [[5, 6]]),),
        "leading interaction": (DoorInputs([[5, 6, 7]], [[-1, 5]]),),
        "inner interaction": (DoorInputs([[5, 6, 7]], [[5, -1, 6]]),),
    },
)
def test_padding_before_an_item_is_invalid(door: Door, bad: DoorInputs, tmp_path: Path) -> None:
    for inputs in (bad, bad.as_text()):
        answer = door(inputs, tmp_path)
        assert answer.values is None
        assert MISPLACED in answer.told


@every_door
def test_what_losses_ignore_is_no_item(door: Door, tmp_path: Path) -> None:
    """As an integer; the cells of a table of text have none."""
    answer = door(DoorInputs([[5, 6]], [[-100, -100]]), tmp_path)
    if door not in TEXT.values():
        assert answer.values is None
        assert "-100 is not an item" in answer.told
    assert door(DoorInputs([["5", "6"]], [["-100", "7"]]), tmp_path).values is not None


@every_door
def test_marks_for_each_item_of_the_list_are_refused(door: Door, tmp_path: Path) -> None:
    for inputs in (
        DoorInputs([[5, 6, 7]], [[0, 1, 0]]),
        DoorInputs([[5, 6, 7]], [[0, 1, 0]]).as_text(),
    ):
        answer = door(inputs, tmp_path)
        assert answer.values is None
        assert MARKED in answer.told


@every_door
def test_interactions_with_the_items_0_and_1_are_counted(door: Door, tmp_path: Path) -> None:
    """Single ids, one chosen again, lists that show an item 0 or 1, and other ids beside them."""
    recommended = [[5], [5, 6], [1, 0, 7], [0, 1], [5, 6, 7], [5, 6, 7], [5, 6, 7]]
    interactions = [[1], [0, 1], [1, 0], [1, 0], [0, 1, 8], [0], [1, 1, 1]]
    answer = door(DoorInputs(recommended, interactions), tmp_path)
    assert answer.values is not None
    assert answer.values[0] == pytest.approx(2 / 7)
    assert not any(warning in answer.told for warning in WARNINGS)


@doors_with(
    "given, says",
    {
        "padded with 0": (
            _many([0], [0]),
            "item 0 is in 60 of 60 lists and in their interactions: is it padding?",
        ),
        "padded with -2": (_many([-2, -2], [-2]), "item -2 is in 60 of 60 lists"),
        "swapped": (DoorInputs(_many([], []).acts, _many([], []).shown), SWAPPED),
        "marks of few lists": (
            DoorInputs([[50 + number, 90 + number] for number in range(5)], [[0, 1]] * 5),
            MARKS,
        ),
        "labels": (
            DoorInputs(
                [[50 + number] for number in range(30)], [[number % 2] for number in range(30)]
            ),
            MARKS,
        ),
    },
)
def test_what_looks_wrong_is_a_warning(
    door: Door, given: DoorInputs, says: str, tmp_path: Path
) -> None:
    for events in (given, given.as_text()):
        answer = door(events, tmp_path)
        assert answer.values is not None
        assert says.rsplit(maxsplit=1)[-1] in answer.told
        assert says in answer.told.replace("'", ""), answer.told


@doors_with(
    "more, says",
    {
        "positions": ({"positions": [[1] * 3] * 30}, CONSTANT),
        "scores": ({"scores": [[2.5, 0.5, -1.5]] * 30}, NO_CHANCES),
    },
)
def test_numbers_that_look_wrong_are_a_warning(
    door: Door, more: dict[str, Any], says: str, tmp_path: Path
) -> None:
    inputs = DoorInputs(
        [[number, number + 100, number + 200] for number in range(3, 33)], [[4]] * 30, more
    )
    assert says in door(inputs, tmp_path).told


@every_door
def test_usual_events_are_not_doubted(door: Door, tmp_path: Path) -> None:
    dice = random.Random(3)
    recommended = [dice.sample(range(2_000), 5) for _ in range(60)]
    clicks = [[dice.choice(items)] if row % 2 else [] for row, items in enumerate(recommended)]
    truth = [dice.sample(range(2_000), dice.randint(6, 30)) for _ in recommended]
    same = [[5, 6, 7]] * 60
    more: More = {
        "positions": [[1, 2, 4, 5, 9]] * 60,
        "scores": [[0.9, 0.5, 0.25, 0.125, 0.0]] * 60,
    }
    for inputs in (
        DoorInputs(recommended, clicks),
        DoorInputs(recommended, truth),
        DoorInputs(same, [[5]] * 60),
        DoorInputs(recommended, clicks, more),
    ):
        answer = door(inputs, tmp_path)
        assert answer.values is not None
        assert not any(warning in answer.told for warning in WARNINGS), answer.told


@every_door
def test_numbers_of_padding_are_cut_with_it(door: Door, tmp_path: Path) -> None:
    plain: More = {"positions": [[2, 1], [4]], "scores": [[0.5, 0.25], [0.75]]}
    padded: More = {
        "positions": [[2, 1, 3], [4, 5, 6]],
        "scores": [[0.5, 0.25, 0.0], [0.75, 0.0, 0.0]],
    }
    expected = door(DoorInputs([[5, 6], [7]], [[6], [7]], plain), tmp_path)
    answer = door(DoorInputs([[5, 6, -1], [7, -1, -1]], [[6, -1], [7, -1]], padded), tmp_path)
    assert answer == expected


@every_door
def test_values_of_items_are_read_and_cut_with_padding(door: Door, tmp_path: Path) -> None:
    plain: More = {"per_item": [{"price": [2.0, 1.5]}, {"price": [4.0]}]}
    padded: More = {"per_item": [{"price": [2.0, 1.5, 9.0]}, {"price": [4.0, 5.0, 6.0]}]}
    answer = door(DoorInputs([[5, 6], [7]], [[6], [7]], plain), tmp_path)
    assert (
        answer.values
        == DOORS["update"](DoorInputs([[5, 6], [7]], [[6], [7]], plain), tmp_path).values
    )
    assert answer.values is not None
    assert answer.values[-1] == 3.75
    assert (
        door(DoorInputs([[5, 6, -1], [7, -1, -1]], [[6, -1], [7, -1]], padded), tmp_path) == answer
    )


@every_door
def test_values_of_items_of_other_lengths_are_invalid(door: Door, tmp_path: Path) -> None:
    for prices in ([2.0], [2.0, 1.0, 3.0]):
        more: More = {"per_item": [{"price": prices}, {"price": [4.0]}]}
        answer = door(DoorInputs([[5, 6], [7]], [[6], [7]], more), tmp_path)
        assert answer.values is None or answer.values[-1] == 4.0
        assert "price" in answer.told or "per_item" in answer.told


@pytest.mark.parametrize("door", PYTHON.values(), ids=PYTHON)
def test_a_large_rank_has_one_limit(door: Door, tmp_path: Path) -> None:
    largest = DoorInputs([[5, 6]], [[6]], {"positions": [[1, 2**31 - 1]]})
    assert door(largest, tmp_path).values is not None
    assert door(DoorInputs([[5, 6]], [[6]], {"positions": [[1, 2**31]]}), tmp_path).values is None


@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
def test_an_empty_user_is_nobody(count: Count) -> None:
    for users in (["", "", "a"], [None, None, "a"], ["", "", ""], [None] * 3):
        accumulator = Accumulator("mrr", "users_covered", intervals=Intervals(groups=16))
        count(accumulator, DoorInputs([[5], [6], [7]], [[5], [6], []], {"users": users}))
        named = [user for user in users if user]
        assert accumulator.audience is not None
        assert (accumulator.audience.users, accumulator.audience.anonymous) == (
            len(named),
            3 - len(named),
        )


@pytest.mark.parametrize("door", ITEMS.values(), ids=ITEMS)
def test_items_one_by_one_keep_the_same_rules(door: Door, tmp_path: Path) -> None:
    inputs = DoorInputs([[5, 6], [7], [8, 9, 10]], [[6], [7], [3]])
    expected = DOORS["update"](inputs, tmp_path).values
    padded = DoorInputs([[5, 6, -1], [7, -1, -1], [8, 9, 10]], inputs.acts)
    for events in (inputs, padded, padded.as_text()):
        assert door(events, tmp_path).values == pytest.approx(expected)
    assert MISPLACED in door(DoorInputs([[5, -1, 6], [7]], [[6], [7]]), tmp_path).told
    assert PADDED in door(_many([0], [0]), tmp_path).told
    assert SWAPPED in door(DoorInputs(_many([], []).acts, _many([], []).shown), tmp_path).told


def test_an_interaction_with_padding_is_invalid_in_a_stream(tmp_path: Path) -> None:
    for item in (-1, "-1", "", -100):
        answer = ITEMS["joined streams"](DoorInputs([[5], [7]], [[item], [7]]), tmp_path)
        assert answer.values is not None
        assert "invalid_id" in answer.told


def test_ranks_of_one_value_are_a_warning_for_pairs_of_files(tmp_path: Path) -> None:
    (tmp_path / "recs.csv").write_text("user,item,rank\nu,a,1\nu,b,1\nv,a,2\nv,c,2\n")
    (tmp_path / "truth.csv").write_text("user,item\nu,a\nv,c\n")
    files = ("--recommendations", tmp_path / "recs.csv", "--truth", tmp_path / "truth.csv")
    assert "is the column a rank?" in run("evaluate", *files, "-m", "mrr").stderr


def test_every_module_that_makes_events_is_behind_a_tested_door() -> None:
    """A new one is a new door: give it the rules, a case in `doors`, and a place in `MAKERS`."""
    package = Path(streameval.__file__).parent
    wanted = {"Batch", "Columns", "Event", "DecodedEvent", "columns_of"}
    makers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in wanted
    }
    assert makers == MAKERS


def test_compute_warns_and_an_update_refuses_at_once() -> None:
    accumulator = Accumulator(*METRICS)
    inputs = _many([0], [0])
    accumulator.update_many(inputs.shown, inputs.acts)
    with pytest.warns(SuspiciousEventsWarning, match="item 0 is in 60 of 60 lists"):
        accumulator.compute()
    for recommended, interactions in (
        ([5, -1, 6], [5]),
        ([5], {-1}),
        ([5], {-1: 2.0}),
        ([5], [-1, 5]),
    ):
        with pytest.raises(InvalidEventError):
            accumulator.update(recommended, interactions)
    assert accumulator.lists == 60


def test_doubts_survive_merge_copy_and_pickle() -> None:
    inputs = _many([0], [0])
    parts = [Accumulator(*METRICS) for _ in range(2)]
    for number, part in enumerate(parts):
        part.update_many(inputs.shown[number::2], inputs.acts[number::2])
    parts[0].merge(parts[1])
    for accumulator in (parts[0], parts[0].copy(), pickle.loads(pickle.dumps(parts[0]))):  # ours
        assert "item 0 is in 60 of 60 lists" in str(accumulator.advice())
    parts[0].reset()
    assert parts[0].advice() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts[0].compute()
