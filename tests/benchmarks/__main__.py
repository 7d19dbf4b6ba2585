"""`python -m tests.benchmarks NAME` runs a benchmark; without NAME it lists them."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from tests import benchmarks

_SHARED = ("__main__", "timing", "traffic")


def main() -> int:
    names = [entry.name for entry in pkgutil.iter_modules(benchmarks.__path__)]
    names_alone = [name for name in names if name not in _SHARED]
    selected = sys.argv[1:]
    if not selected or set(selected) - set(names_alone):
        print(f"python -m tests.benchmarks NAME...\n  NAME: {', '.join(names_alone)}")
        return 2
    for name in selected:
        print(f"== {name}")
        importlib.import_module(f"{benchmarks.__name__}.{name}").main()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
