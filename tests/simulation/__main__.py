"""`python -m tests.simulation --seed N` prints every promise with the rate that was measured."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import chain

from tests.simulation import (
    activity,
    adjusted,
    deciding,
    doubts,
    edges,
    gaps,
    interleaving,
    policies,
)
from tests.simulation.bars import Simulation
from tests.simulation.systems import MISTAKES, System

_OTHERS = (
    *(edges.bars, activity.bars, adjusted.bars, deciding.bars, doubts.bars),
    *(gaps.bars, policies.bars, interleaving.bars),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the worlds of some seeds and print each bar; 1 where one is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, action="append", help="of a world; may be repeated")
    parser.add_argument(
        "--runs", type=int, default=100, help="of each bar; 500 is the full profile"
    )
    parser.add_argument("--mistake", choices=list(MISTAKES), help="to be found")
    options = parser.parse_args(arguments)
    system = MISTAKES[options.mistake] if options.mistake else System()
    broken = 0
    for seed in options.seed or [1]:
        simulation = Simulation(seed, options.runs, system)
        print(f"seed {seed}: {simulation.world}")
        others = () if options.mistake else _OTHERS
        for bar in chain(simulation.bars(), *(bars(seed, options.runs) for bars in others)):
            broken += not bar.passed
            print(
                f"  {'ok    ' if bar.passed else 'BROKEN'} {bar.name}: {bar.measured}", flush=True
            )
    print(f"{broken} broken" if broken else "all kept")
    return int(broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
