"""`python -m tests.house.sizes` lists the longest files and functions of the package."""

from __future__ import annotations

import statistics

from tests.house.checkout import PACKAGE, functions, modules

_LISTED = 10


def main() -> None:
    """Print them, longest first, with the medians."""
    files = [(len(path.read_text(encoding="utf-8").splitlines()), path) for path in modules()]
    bodies = [(lines, path, name) for path in modules() for name, lines in functions(path)]
    print(f"files: median {statistics.median(lines for lines, _ in files):g} lines")
    for lines, path in sorted(files, reverse=True)[:_LISTED]:
        print(f"{lines:6}  {path.relative_to(PACKAGE)}")
    print(f"functions: median {statistics.median(lines for lines, *_ in bodies):g} lines of body")
    for lines, path, name in sorted(bodies, reverse=True)[:_LISTED]:
        print(f"{lines:6}  {path.relative_to(PACKAGE)}: {name}")


if __name__ == "__main__":
    main()
