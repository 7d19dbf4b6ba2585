"""`python -m tests.chaos [SCENARIO...]` hurts daemons in known ways, and says how they did."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from streameval.broker import Broker
from streameval.sources.kafka_client import hush
from tests.chaos.scenarios import SCENARIOS, Stage


def main(arguments: Sequence[str]) -> int:
    """Play scenarios one after the other, and print a verdict for each."""
    asked = _parsed(arguments)
    hush()
    broker = Broker()
    broker.start()
    failed = 0
    try:
        for name in asked.scenario or SCENARIOS:
            failed += not _played(name, broker, asked)
    finally:
        broker.remove()
    return 1 if failed else 0


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("scenario", nargs="*", choices=[*SCENARIOS, []], metavar="SCENARIO")
    parser.add_argument("--times", type=int, default=3, help="how often each hurts")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of everything random")
    return parser.parse_args(arguments)


def _played(name: str, broker: Broker, asked: argparse.Namespace) -> bool:
    print(f"{name:<16} seed {asked.seed}, {asked.times} times ...", end=" ", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(broker=broker, folder=Path(folder), seed=asked.seed, times=asked.times)
        found = SCENARIOS[name](stage)
    print(f"{'; '.join(found) if found else 'as it should be'} ({time.monotonic() - began:.0f} s)")
    return not found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
