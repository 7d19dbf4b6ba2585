"""What `import streameval` costs, beside numpy and msgspec alone; the aim is below 150 ms."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

_ROUNDS = 15


def main() -> None:
    """Print the medians over fresh processes, in turn."""
    statements = ("pass", "import numpy, msgspec", "import streameval; streameval.Accumulator")
    taken: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(_ROUNDS):
        for statement in statements:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-c", statement], check=True)
            taken[statement].append(time.perf_counter() - start)
    bare = statistics.median(taken["pass"])
    for statement, seconds in taken.items():
        print(f"{1000 * (statistics.median(seconds) - bare):8.1f} ms  {statement}")
