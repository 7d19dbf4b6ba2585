"""What a daemon does before it counts."""

from __future__ import annotations

import gc

from streameval.config import Config, WebOptions
from streameval.daemon import Daemon
from streameval.sources.options import SimulatorOptions


def test_while_it_counts_the_garbage_collector_looks_at_little_and_seldom() -> None:
    found: list[tuple[int, int]] = []

    def until() -> bool:
        found.append((gc.get_freeze_count(), gc.get_threshold()[0]))
        return True

    web = WebOptions(listen="127.0.0.1:0")
    config = Config(metrics=["ndcg@10"], source=SimulatorOptions(), web=web)
    before = gc.get_threshold()
    Daemon(config, {}).run(until)
    frozen, young = found[0]
    assert frozen > len(gc.get_objects()) / 2
    assert young > 10 * before[0]
    assert (gc.get_freeze_count(), gc.get_threshold()) == (0, before)
