"""Time of `import streameval`, and of NumPy and msgspec alone; the aim is below 150 ms."""

from __future__ import annotations

import subprocess
import sys
import time

_ROUNDS = 20


def main() -> None:
    """Print the minimum over many fresh processes, without the start of Python."""
    statements = ("pass", "import numpy, msgspec", "import streameval; streameval.Accumulator")
    taken: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(_ROUNDS):
        for statement in statements:
            start = time.perf_counter()
            subprocess.run([sys.executable, "-I", "-c", statement], check=True)
            taken[statement].append(time.perf_counter() - start)
    bare = min(taken["pass"])
    for statement, seconds in taken.items():
        print(f"{1000 * (min(seconds) - bare):8.1f} ms  {statement}")
