"""Records from the future in a real topic: no window of any partition moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from streameval.catalogue.reading import Reading
from streameval.config import Config
from streameval.config.options import WindowsOptions
from streameval.config.pipeline import counting
from streameval.decoding.fields import EventFields
from streameval.engine.ingest import Ingest
from streameval.engine.snapshots import of_ingest
from streameval.testing.broker import Broker
from tests.kafka.topics import drained, filled, opened, options

pytestmark = pytest.mark.kafka

GOOD, PARTITIONS, STEP = 1_000, 4, 4
"""Good records, a step in seconds after one another."""

AHEAD = (58 * 60, 10 * 365 * 24 * 3_600)
"""58 minutes and ten years, in seconds."""

PLACES = {"before": 0, "amid": GOOD // 2, "after": GOOD}
_START = 1_800_000_000

Windows = Mapping[tuple[str, tuple[str, ...], str], Reading]


def test_records_from_the_future_move_no_window(broker: Broker) -> None:
    without = _counted(broker, bad_at=None)
    assert {window for _, _, window in _windows(without)} == {"5m", "1h"}
    for name, place in PLACES.items():
        found = _counted(broker, bad_at=place)
        assert _windows(found) == _windows(without), name
        assert found.clock == without.clock
        assert found.tally.valid == GOOD + len(AHEAD)
        # After the last good record nothing refutes them yet.
        assert found.tally.future == (0 if place == GOOD else len(AHEAD))


def _counted(broker: Broker, *, bad_at: int | None) -> Ingest:
    config = Config(
        metrics=["hit_rate@1", "ndcg@3", "distinct_items@2"],
        labels=["variant"],
        event=EventFields(time="ts", time_unit="s"),
        windows=WindowsOptions(spans=["5m", "1h"]),
        source=options(broker, "unused"),
    )
    records = _records(bad_at)
    topic = filled(broker, records)
    ingest = counting(config)
    with opened(options(broker, topic)) as source:
        for batch in sorted(drained(source, sum(map(len, records.values()))), key=_offset):
            ingest.apply(batch)
    return ingest


def _offset(batch: object) -> int:
    offsets: Sequence[int] = getattr(batch, "offsets", ())
    return offsets[0] if offsets else 0


def _records(bad_at: int | None) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {number: [] for number in range(PARTITIONS)}
    for number in range(GOOD + 1):
        if number == bad_at:
            found[1] += [_record(number, ahead) for ahead in AHEAD]
        if number < GOOD:
            found[number % PARTITIONS].append(_record(number, 0))
    return found


def _record(number: int, ahead: int) -> bytes:
    items = [f"item-{(number * 7 + place) % 50}" for place in range(4)]
    event = {
        "ts": _START + number * STEP + ahead,
        "variant": "from the future" if ahead else "ab"[number % 3 % 2],
        "recommendations": items,
        "interactions": [items[number % 4]],
    }
    return msgspec.json.encode(event)


def _windows(ingest: Ingest) -> Windows:
    series = of_ingest(ingest, labels=["variant"], now=0.0).series
    return {
        (each.metric.text, each.labels, each.window): each.reading
        for each in series
        if each.window != "lifetime"
    }
