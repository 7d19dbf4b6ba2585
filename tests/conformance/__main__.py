"""`python -m tests.conformance` checks the generated pages; with --write it writes them anew."""

from __future__ import annotations

import sys

from tests.conformance.pages import pages


def main() -> int:
    """Write the pages, or say which lag; the exit code is how many lag."""
    lagging = [
        path
        for path, text in pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path in lagging:
        print(path.name)
        if "--write" in sys.argv:
            path.write_text(pages()[path], encoding="utf-8")
    return 0 if "--write" in sys.argv else len(lagging)


if __name__ == "__main__":
    sys.exit(main())
