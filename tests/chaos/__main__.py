"""`python -m tests.chaos [SCENARIO...]` injects faults into daemons and checks the result."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from streameval.testing.broker import Broker
from tests.chaos.proxy import Proxy, proxied_broker
from tests.chaos.run import ScenarioRun
from tests.chaos.scenarios import IN_FOLDER, ON_S3, run_scenario


def main(arguments: Sequence[str]) -> int:
    """Run scenarios one by one, and print a verdict for each."""
    options = _options(arguments)
    failed = 0
    with proxied_broker() as (broker, proxy):
        for name in options.scenario:
            failed += not _passed(name, broker, proxy, options)
    return 1 if failed else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    names = ", ".join(IN_FOLDER)
    on_s3 = ", ".join(ON_S3)
    parser.add_argument(
        "scenario",
        nargs="*",
        metavar="SCENARIO",
        help=f"by default all of {names}; with --store s3 of {on_s3}",
    )
    parser.add_argument("--times", type=int, default=3, help="repetitions of each fault")
    parser.add_argument("--minutes", type=float, default=1.0, help="duration of the soak")
    parser.add_argument(
        "--store", choices=("folder", "s3"), default="folder", help="store of the checkpoints"
    )
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="seed of all random choices"
    )
    clients = ("kafka-python", "confluent")
    parser.add_argument(
        "--client", choices=clients, default=clients[0], help="Kafka client of the daemons"
    )
    options = parser.parse_args(arguments)
    scenarios = ON_S3 if options.store == "s3" else IN_FOLDER
    options.scenario = options.scenario or list(scenarios)
    unknown = [name for name in options.scenario if name not in scenarios]
    if unknown:
        parser.error(f"unknown scenario {', '.join(unknown)}; choose from {', '.join(scenarios)}")
    return options


def _passed(name: str, broker: Broker, proxy: Proxy, options: argparse.Namespace) -> bool:
    print(f"{name:<15} {options.client}, seed {options.seed} ...", end=" ", flush=True)
    folder = Path(tempfile.mkdtemp(prefix=f"streameval-{name}-"))
    began = time.monotonic()
    broker.start()
    run = ScenarioRun(
        broker=broker,
        proxy=proxy,
        folder=folder,
        client=options.client,
        seed=options.seed,
        times=options.times,
        minutes=options.minutes,
        on_s3=options.store == "s3",
    )
    problems = run_scenario(name, run)
    print(f"{'FAILED' if problems else 'passed'} ({time.monotonic() - began:.0f} s)")
    for line in (*problems, *run.report):
        print(f"    {line}")
    if problems:
        print(f"    state and logs are in {folder}")
    else:
        shutil.rmtree(folder)
    return not problems


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
