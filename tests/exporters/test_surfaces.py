"""Windows, segments and state on the page, in the API and in the terminal's table."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from streameval.catalogue import parse
from streameval.engine.snapshot import Snapshot, WebConfigHealth
from streameval.evaluation.shell.reading_tables import tables
from streameval.evaluation.shell.terminal import draw_text
from streameval.exporters.page.definition import metric_summary
from streameval.exporters.page.page import page
from streameval.exporters.page.selection import Selection
from streameval.exporters.page.state import daemon_state
from streameval.exporters.web.answers import snapshot_answer
from tests.exporters.pictures import (
    STARTED,
    busy_health,
    health,
    mean,
    partition,
    picture,
    property_of_all,
    windowed,
)


def several() -> Snapshot:
    """Two metrics in two windows, by variant, and by variant and country."""
    return picture(
        windowed(mean("ctr", ("a",), 1, 4), "5m"),
        windowed(mean("ctr", ("a",), 30, 40), "lifetime"),
        windowed(mean("ctr", ("b",), 20, 40), "lifetime"),
        msgspec.structs.replace(
            windowed(property_of_all("item_coverage@5", ("a",), 0.5), "5m"), since=1_760_000_000.0
        ),
        windowed(mean("ctr", ("a", "nl"), 7, 10), "lifetime", family=1),
        segments=["country"],
        windows=["5m", "24h"],
        counted={},
        state=busy_health(),
    )


def shown(snapshot: Snapshot) -> list[list[str]]:
    """The cells of each line that has any."""
    lines = [line.replace("┃", "│") for line in draw_text(*tables(snapshot)).splitlines()]
    return [[cell.strip() for cell in line.split("│") if cell.strip()] for line in lines]


def html(snapshot: Snapshot, selection: Selection | None = None) -> str:
    return page(snapshot, daemon_state(snapshot, healthy=True), selection or Selection())


def api(snapshot: Snapshot) -> Any:
    return json.loads(msgspec.json.encode(snapshot_answer(snapshot)))


def test_the_table_has_a_column_for_each_window_and_a_table_for_each_segment() -> None:
    lines = shown(several())
    assert ["metric", "variant", "5m", "24h", "lifetime"] in lines
    assert ["ctr", "a", "0.2500  of 4", "0.7500  of 40"] in lines
    assert ["ctr", "b", "0.5000  of 40"] in lines
    assert ["by variant, country"] in lines
    assert ["ctr", "a", "nl", "0.7000  of 10"] in lines


def test_the_api_has_window_segment_and_since() -> None:
    entries = api(several())["metrics"]
    assert [entry["window"] for entry in entries] == [
        *("5m", "lifetime", "lifetime", "5m", "lifetime")
    ]
    assert [entry["since"] for entry in entries] == [None, None, None, 1_760_000_000.0, None]
    assert entries[-1]["segment"] == "country"
    assert entries[-1]["labels"] == {"variant": "a", "country": "nl"}
    assert {entry["segment"] for entry in entries[:-1]} == {None}


def test_the_api_has_checkpoints_dead_letters_and_recoveries() -> None:
    health = api(several())["health"]
    expected = {
        "late": 4,
        "future": 6,
        "duplicates": 2,
        "folded": {"labels": 7, "country": 0},
        "dead_lettered": 3,
        "recoveries": {"seek": 2, "rejoin": 1},
        "connection_failures": {"authentication": 4, "certificate": 0},
        "checkpoint": {
            "last_success": 1_760_000_009.0,
            "failures": {"store": 1, "dead_letters": 1, "timeout": 0},
            "commit_failures": 5,
            "skipped": 8,
        },
        "web_config": {"successful": False, "at": 1_760_000_008.0},
    }
    assert {name: health[name] for name in expected} == expected
    assert health["partitions"][0] == {
        "topic": "recommendation-events",
        "partition": 0,
        "position": 5,
        "end": 9,
        "lag": 4,
        "durable": 3,
        "event_time": 1.5,
        "ahead": 0.0,
    }


def test_the_page_offers_each_segment_and_each_window_and_shows_the_chosen_ones() -> None:
    text = html(several(), Selection(segment="country", window="lifetime"))
    assert text.count('<option value="country" selected="">country</option>') == 1
    for window in ("5m", "24h", "lifetime"):
        assert text.count(f'<option value="{window}"') == 1
    assert '<option value="lifetime" selected="">all time</option>' in text
    assert '<data value="0.7">0.7000</data>' in text
    assert "0.2500" not in text


def test_the_page_shows_what_is_saved_and_from_when_an_incomplete_window_has_data() -> None:
    text, bare = html(several()), html(picture())
    assert "Counts since this process started." in bare
    assert text.count("Complete from 2025-10-09 08:53:20 UTC.") == 1
    assert "Values survive a restart; counters in Prometheus begin again at 0." in text
    assert "<dt>Dead letters</dt><dd>3</dd>" in text
    for saved in ("<dt>Last checkpoint</dt>", "Saved up to", "<dt>Too late for a window</dt>"):
        assert (saved in text, saved in bare) == (True, False)


def test_old_events_have_a_date_and_live_ones_an_age() -> None:
    for at, age in ((STARTED, "1 s ago"), (1_700_000_000, "2023-11-14 22:13:20 UTC")):
        live = health(partitions=(partition(0, 5, 9, at),))
        assert f"<dt>Newest event</dt><dd>{age}</dd>" in html(picture(state=live))


def test_the_page_shows_the_share_of_invalid_records() -> None:
    some = picture(state=health(consumed=400, invalid={"not_json": 3}))
    assert "<dt>Invalid</dt><dd>3 (0.8 %)</dd>" in html(some)
    assert "<dt>Invalid</dt><dd>0</dd>" in html(picture(state=health(consumed=400)))


def test_a_rejected_configuration_is_a_warning() -> None:
    bad = picture(state=health(web_config=WebConfigHealth(successful=False, at=1.0)))
    good = picture(state=health(web_config=WebConfigHealth(successful=True, at=1.0)))
    assert daemon_state(bad, healthy=True).sentence.startswith(
        "Warning: the web configuration has a mistake"
    )
    assert daemon_state(good, healthy=True).word == "Ready"


def test_slices_are_columns_with_value_and_count_or_there_is_one_without_labels() -> None:
    lines = shown(picture(mean("ctr", ("a",), 1, 4), mean("ctr", ("b",), 3000, 4000)))
    assert ["metric", "a", "b"] in lines
    assert ["ctr", "0.2500  of 4", "0.7500  of 4,000"] in lines
    assert ["metric", "value"] in shown(picture(mean("ctr", (), 1, 4), label_names=()))


def test_a_label_is_shown_as_it_is_and_never_as_markup() -> None:
    nasty, escaped = "[red]a[/x]\x1b[31m", r"[red]a[/x]\x1b[31m"
    assert ["metric", escaped] in shown(picture(mean("ctr", (nasty,), 1, 4)))
    many = picture(*(mean("ctr", (f"{nasty}{number}",), 1, 4) for number in range(5)))
    assert ["ctr", f"{escaped}4", "0.2500", "4"] in shown(many)


def test_an_estimate_says_so_with_its_bounds() -> None:
    sure = {"low": 0.25, "high": 0.75}
    for more, said in (
        ({"estimated": True, **sure}, "0.5000 (estimated, between 0.2500 and 0.7500)  of 10"),
        ({"estimated": True}, "0.5000 (estimated, without bounds)  of 10"),
        (sure, "0.5000 (between 0.2500 and 0.7500)  of 10"),
    ):
        assert ["gini", said] in shown(picture(property_of_all("gini", ("a",), 0.5, **more)))


def test_the_page_names_the_partition_whose_clock_is_ahead_of_the_machine() -> None:
    both = (partition(0, 3, 3, 2.0), partition(1, 3, 3, 2.0, ahead=9.0))
    text = html(picture(state=health(partitions=both)))
    assert text.count(" (ahead of this machine)<") == 1


def test_the_page_says_which_items_count() -> None:
    assert "Only items of tier:tail count" in metric_summary(parse("ndcg(among=tier:tail)@5"))
    assert "counts the provider of items instead" in metric_summary(parse("gini(by=provider)"))
    assert "items of" not in metric_summary(parse("ndcg@5"))
    share = metric_summary(parse("importance_weight(statistic=effective_share)"))
    assert share.startswith("Effective share of: Mean weight of a list in ips:")
