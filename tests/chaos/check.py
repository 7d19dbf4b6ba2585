"""Whether what a scenario left behind is what it should be."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.configuration import Setting
from tests.chaos.log import Content
from tests.chaos.truth import Truth, dead_letters, folded, saved

Faults = list[str]


def faults(setting: Setting, content: Content, *, counted: dict[str, float]) -> Faults:
    """One sentence for everything that is wrong; none where all is as it should be.

    Args:
        setting: of a daemon that has ended in order.
        content: what was written to its topic.
        counted: counters by sample, added up over all processes that there were.
    """
    truth = folded(setting.written(), content.count)
    return [
        *_states(truth, setting.store),
        *_letters(setting, content),
        *_records(truth, content),
        *_counters(truth, counted),
    ]


def _states(truth: Truth, store: Path) -> Faults:
    digests, positions = saved(store)
    found = []
    for partition, position in truth.positions.items():
        if positions.get(partition) != position:
            found.append(f"{partition} ends at {position}, saved {positions.get(partition)}")
        here, there = truth.digests[partition], digests.get(partition, {})
        names = sorted(here.keys() | there.keys())
        unlike = [name for name in names if here.get(name) != there.get(name)]
        if unlike:
            found.append(f"{partition} is not the fold of its log: {', '.join(unlike[:5])}")
    return found


def _letters(setting: Setting, content: Content) -> Faults:
    found = dead_letters(setting.address, f"{setting.topic}.dlq")
    missing, more = content.bad - found, found - content.bad
    return [
        *([f"{len(missing)} invalid records were not set aside"] if missing else []),
        *([f"{len(more)} valid records were set aside"] if more else []),
    ]


def _records(truth: Truth, content: Content) -> Faults:
    tally = truth.tally
    invalid = sum(tally.invalid.values())
    accounted = tally.valid + invalid + tally.tombstones + tally.duplicates
    if accounted == content.count and invalid == len(content.bad):
        return []
    return [f"{content.count} records were written, {accounted} are accounted for"]


def _counters(truth: Truth, counted: dict[str, float]) -> Faults:
    """Counters of all processes together may miss a little, and never exceed the truth."""
    shown = sum(value for name, value in counted.items() if name.startswith("streameval_mrr_count"))
    if shown > truth.tally.valid:
        return [f"counters say {shown:.0f} lists, but there are {truth.tally.valid}"]
    return []
