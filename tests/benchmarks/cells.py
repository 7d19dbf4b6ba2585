"""Many slices and partitions: events compared with an earlier build, and a day of panes.

All times are CPU times.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
import psutil

from streameval.config import Config
from streameval.config.options import (
    AttributeOptions,
    PopularityOptions,
    TierOptions,
    WindowsOptions,
)
from streameval.config.pipeline import new_ingest
from streameval.decoding.fields import EventFields
from streameval.engine.capture import RuntimeStatus, SnapshotCapture
from streameval.events.records import Partition
from streameval.sources.options import SimulatorOptions
from tests.batches import batch_of
from tests.benchmarks.builds import BEFORE, CLICKED, compare_builds

_DAYS = ((4, 4), (50, 4), (200, 8))
"""Slices and partitions of the day of panes."""

_WHO_DAYS = ((1, 1), (1, 20), (4, 5))
"""Partitions, and users of each slice in a pane, of a day of 50 slices by tier and by user."""

_WHO = ("ndcg(per=user)@10", *(f"ndcg(among=tier:{tier})@10" for tier in ("head", "mid", "tail")))

_START = 1_700_000_000
_ITEMS = [f"item-{number}" for number in range(5_000)]

Parts: TypeAlias = Mapping[Partition, tuple[int, Mapping[str, bytes]]]
"""Partition -> next offset and sections of its state."""


def main() -> None:
    """Print the cost of events, a restart, a new minute and a second."""
    print(f"{'us per event (slices x partitions)':38}{BEFORE:>9}{'now':>9}{'ratio':>9}")
    now_by_case = {}
    for name, before, now, ratio in compare_builds():
        now_by_case[name] = now
        print(f"{name:38}{before:9.2f}{now:9.2f}{ratio:9.2f}", flush=True)
    small, large = (now_by_case[f"1 to 9 interactions, {shape}"] for shape in ("1 x 1", "50 x 64"))
    print(f"50 x 64 relative to 1 x 1, per event: {large / small:.2f}")
    clicked, bare = (
        now_by_case[f"join, {what}"] for what in ("a fifth is clicked", "nothing is clicked")
    )
    print(f"a click costs {(clicked - bare) / CLICKED:.1f} us")
    print("a day of panes: restore and first reading; then one more event in each slice:")
    for slices, partitions in _DAYS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "day"
            path.write_bytes(pickle.dumps(_day(slices, partitions)))
            program = f"from tests.benchmarks import cells; cells.restart({str(path)!r}, {slices})"
            subprocess.run([sys.executable, "-c", program], check=True)
    for partitions, users in _WHO_DAYS:
        print(f"by three tiers and by user, {users} users of each slice in a pane:")
        with tempfile.TemporaryDirectory() as folder:
            path, popularity = Path(folder) / "day", Path(folder) / "popularity.csv"
            rows = (f"{item},{number + 1}" for number, item in enumerate(_ITEMS))
            popularity.write_text("\n".join(rows), encoding="utf-8")
            path.write_bytes(pickle.dumps(_day(50, partitions, users, popularity)))
            call = f"cells.restart({str(path)!r}, 50, {str(popularity)!r})"
            subprocess.run(
                [sys.executable, "-c", f"from tests.benchmarks import cells; {call}"], check=True
            )


def restart(path: str, slices: int, popularity: str | None = None) -> None:
    """Print the cost of a process that restores the state of a day, by tier and user or not."""
    parts: Parts = pickle.loads(Path(path).read_bytes())
    size = sum(len(data) for _, contents in parts.values() for data in contents.values())
    before = psutil.Process().memory_info().rss
    ingest = new_ingest(_config(popularity))
    started = time.process_time()
    for partition, (offset, sections_) in parts.items():
        ingest.restore(partition, {partition: offset}, sections_)
    restored = time.process_time() - started
    snapshots = SnapshotCapture(ingest.layout, source="", labels=["variant"], started_at=0.0)
    around = RuntimeStatus()
    first = _timed(lambda: snapshots.take(ingest.copied(), 0.0, around))
    memory = (psutil.Process().memory_info().rss - before) / 1e6
    durations = []
    for seconds in (1, 61):
        for partition, (offset, _) in parts.items():
            values = [_record(number, _START + seconds) for number in range(slices)]
            ingest.apply(batch_of(partition, values, offset + (seconds > 1) * slices))
        copied = _timed(ingest.copied)
        durations += [copied, _timed(lambda: snapshots.take(ingest.copied(), 1.0, around))]
    second, live, minute, moved = (1e3 * duration for duration in durations)
    print(
        f"{slices:6} slices x {len(parts)} partitions: {restored:.2f} s + {first:.2f} s, "
        f"{memory:.0f} MB, {size / 1e6:.1f} MB saved, {memory * 1e3 / slices / len(parts):.1f} kB "
        f"per slice and partition\n{'':8}in the loop {second:.1f} ms, new minute {minute:.1f}; "
        f"outside it {live:.0f} ms, new minute {moved:.0f}"
    )


def _config(popularity: str | Path | None = None) -> Config:
    tiers = {"tier": AttributeOptions(popularity=TierOptions())}
    return Config(
        metrics=["ndcg@10", "hit_rate@10", "mrr", *(_WHO if popularity else ())],
        popularity=PopularityOptions(path=str(popularity)) if popularity else None,
        attributes=tiers if popularity else {},
        labels=["variant"],
        label_cap=10_000,
        max_series=10_000,
        event=EventFields(time="ts", time_unit="s"),
        source=SimulatorOptions(),
        windows=WindowsOptions(spans=["5m", "1h", "24h"]),
    )


def _day(slices: int, partitions: int, users: int = 0, popularity: Path | None = None) -> Parts:
    """A state with an event of every slice in every pane, or of so many users."""
    hours = [_START - hour * 3_600 for hour in range(23, 2, -1)]
    minutes = [_START - minute * 60 for minute in range(122, -1, -1)]
    ingest, lists = new_ingest(_config(popularity)), max(users, 1)
    for number in range(partitions):
        partition = Partition("events", number)
        for place, when in enumerate((*hours, *minutes)):
            values = [
                _record(index, when, f"u{place}-{user}" if users else None)
                for index in range(slices)
                for user in range(lists)
            ]
            ingest.apply(batch_of(partition, values, place * slices * lists))
    return {
        name: (
            ingest.positions[name],
            {section.name: b"".join(section.content()()) for section in ingest.sections(name)},
        )
        for name in ingest.partitions
    }


def _record(number: int, when: int, user: str | None = None) -> bytes:
    shown = _ITEMS[number % 97 : number % 97 + 10]
    acts = shown[number % 10 : number % 10 + 1] if number % 5 == 0 else []
    record = {"variant": f"v{number}", "ts": when, "recommendations": shown, "interactions": acts}
    return msgspec.json.encode(record | ({} if user is None else {"user": user}))


def _timed(task: Callable[[], object]) -> float:
    started = time.process_time()
    task()
    return time.process_time() - started
