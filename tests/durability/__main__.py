"""`python -m tests.durability --examples 5000 --seed 7` runs many more schedules than CI does."""

from __future__ import annotations

import argparse
import time

from tests.durability.running import drawn, run


def main() -> None:
    """Run them, and say which seed they were of."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=5000, help="schedules")
    parser.add_argument("--seed", type=int, default=None, help="of all of them")
    asked = parser.parse_args()
    chosen = drawn() if asked.seed is None else asked.seed
    print(f"{asked.examples} schedules of seed {chosen}", flush=True)
    began = time.monotonic()
    run(asked.examples, chosen)
    print(f"all true, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
