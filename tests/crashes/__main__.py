"""`python -m tests.crashes --seed N` repeats a schedule; `--count N` runs so many from there."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from tests.crashes.simulation import FAULTS, BrokenInvariantError, simulate


def main(arguments: Sequence[str] | None = None) -> int:
    """Run schedules, and print what is broken and how many a minute there are."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first schedule")
    parser.add_argument("--count", type=int, default=1, help="number of schedules")
    parser.add_argument("--seconds", type=float, default=FAULTS, help="of faults, in virtual time")
    parser.add_argument("--joins", action="store_true", help="join lists with clicks")
    parser.add_argument("--trace", action="store_true", help="print each step")
    options = parser.parse_args(arguments)
    began, broken = time.process_time(), 0
    for seed in range(options.seed, options.seed + options.count):
        try:
            simulation = simulate(seed, options.seconds, joins=options.joins)
        except BrokenInvariantError as error:
            broken += 1
            print(error)
        else:
            for at, process, step in simulation.trace if options.trace else ():
                print(f"{at:9.3f} {process:5} {step}")
    minutes = (time.process_time() - began) / 60
    print(
        f"{broken} of {options.count} broken; {options.count / minutes:.0f} a minute of a processor"
    )
    return min(broken, 1)


if __name__ == "__main__":
    raise SystemExit(main())
