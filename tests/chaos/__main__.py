"""`python -m tests.chaos [SCENARIO...]` hurts daemons in known ways, and says how they did."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from streameval.sources.kafka.client import silence_client_log
from streameval.testing.broker import Broker
from tests.chaos.proxy import Proxy, rough_broker
from tests.chaos.scenarios import IN_FOLDER, ON_S3, played
from tests.chaos.stage import Stage


def main(arguments: Sequence[str]) -> int:
    """Play scenarios one after the other, and print a verdict for each."""
    asked = _parsed(arguments)
    silence_client_log()
    failed = 0
    with rough_broker() as (broker, proxy):
        for name in asked.scenario:
            failed += not _well(name, broker, proxy, asked)
    return 1 if failed else 0


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    names = ", ".join(IN_FOLDER)
    on_s3 = ", ".join(ON_S3)
    parser.add_argument(
        "scenario",
        nargs="*",
        metavar="SCENARIO",
        help=f"by default all of {names}; with --store s3 of {on_s3}",
    )
    parser.add_argument("--times", type=int, default=3, help="how often each hurts")
    parser.add_argument("--minutes", type=float, default=1.0, help="of the soak")
    parser.add_argument(
        "--store", choices=("folder", "s3"), default="folder", help="where checkpoints are kept"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all chance")
    clients = ("kafka-python", "confluent")
    parser.add_argument("--client", choices=clients, default=clients[0], help="that daemons use")
    asked = parser.parse_args(arguments)
    known = ON_S3 if asked.store == "s3" else IN_FOLDER
    asked.scenario = asked.scenario or list(known)
    unknown = [name for name in asked.scenario if name not in known]
    if unknown:
        parser.error(f"no scenario {', '.join(unknown)} there; there are {', '.join(known)}")
    return asked


def _well(name: str, broker: Broker, proxy: Proxy, asked: argparse.Namespace) -> bool:
    print(f"{name:<15} {asked.client}, seed {asked.seed} ...", end=" ", flush=True)
    folder = Path(tempfile.mkdtemp(prefix=f"streameval-{name}-"))
    began = time.monotonic()
    broker.start()
    stage = Stage(
        broker=broker,
        proxy=proxy,
        folder=folder,
        client=asked.client,
        seed=asked.seed,
        times=asked.times,
        minutes=asked.minutes,
        on_s3=asked.store == "s3",
    )
    found = played(name, stage)
    print(f"{'FAILED' if found else 'as it should be'} ({time.monotonic() - began:.0f} s)")
    for line in (*found, *stage.report):
        print(f"    {line}")
    if found:
        print(f"    states and logs are in {folder}")
    else:
        shutil.rmtree(folder)
    return not found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
