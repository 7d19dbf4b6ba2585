"""`python -m tests.benchmarks NAME` runs one benchmark; without a name, lists them."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from tests import benchmarks

_SHARED = ("__main__", "beside", "peer_systems", "timing", "traffic", "turns")


def main() -> int:
    """Run the named benchmarks."""
    names = [entry.name for entry in pkgutil.iter_modules(benchmarks.__path__)]
    known = [name for name in names if name not in _SHARED]
    asked = sys.argv[1:]
    if not asked or set(asked) - set(known):
        print(f"python -m tests.benchmarks NAME...\n  NAME: {', '.join(known)}")
        return 2
    for name in asked:
        print(f"== {name}")
        importlib.import_module(f"{benchmarks.__name__}.{name}").main()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
