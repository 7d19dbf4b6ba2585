from __future__ import annotations

import io

from rich.console import Console

from streameval.cli.readings import table
from streameval.engine.snapshot import Snapshot
from tests.exporters.pictures import mean, picture, property_of_all


def shown(snapshot: Snapshot) -> list[list[str]]:
    """The cells of each line that has any."""
    text = io.StringIO()
    Console(file=text, width=120).print(table(snapshot))
    lines = [line.replace("┃", "│") for line in text.getvalue().splitlines()]
    return [[cell.strip() for cell in line.split("│") if cell.strip()] for line in lines]


def test_slices_stand_side_by_side_with_value_and_count() -> None:
    lines = shown(picture(mean("ctr", ("a",), 1, 4), mean("ctr", ("b",), 3000, 4000)))
    assert ["metric", "a", "b"] in lines
    assert ["ctr", "0.2500  of 4", "0.7500  of 4,000"] in lines


def test_many_slices_stand_below_each_other() -> None:
    lines = shown(picture(*(mean("ctr", (f"v{number}",), 1, 4) for number in range(5))))
    assert ["metric", "variant", "value", "count"] in lines
    assert ["ctr", "v3", "0.2500", "4"] in lines


def test_an_undefined_value_is_a_dash() -> None:
    assert ["ctr", "\N{EN DASH}  of 0"] in shown(picture(mean("ctr", ("a",), 0.0, 0)))


def test_without_labels_there_is_one_column() -> None:
    lines = shown(picture(mean("ctr", (), 1, 4), label_names=()))
    assert ["metric", "value"] in lines


def test_a_label_is_shown_as_it_is_and_never_as_markup() -> None:
    nasty = "[red]a[/x]"
    assert ["metric", nasty] in shown(picture(mean("ctr", (nasty,), 1, 4)))
    many = picture(*(mean("ctr", (f"{nasty}{number}",), 1, 4) for number in range(5)))
    assert ["ctr", f"{nasty}4", "0.2500", "4"] in shown(many)


def test_an_estimate_says_so_with_its_bounds() -> None:
    sure = {"low": 0.25, "high": 0.75}
    for more, said in (
        ({"estimated": True, **sure}, "0.5000 (estimated, between 0.2500 and 0.7500)  of 10"),
        ({"estimated": True}, "0.5000 (estimated, without bounds)  of 10"),
        (sure, "0.5000 (between 0.2500 and 0.7500)  of 10"),
    ):
        assert ["gini", said] in shown(picture(property_of_all("gini", ("a",), 0.5, **more)))
