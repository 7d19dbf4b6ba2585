"""`python -m tests.docs` checks the files that are made from the code; --write writes them anew."""

from __future__ import annotations

import sys

from tests.docs.generated import lagging
from tests.docs.markdown import label


def main() -> int:
    """Write the files, or say which lag; the exit code says whether any does."""
    late = lagging()
    print("\n".join(map(label, late)) or "all are as the code")
    if "--write" not in sys.argv[1:]:
        return bool(late)
    for path, text in late.items():
        path.write_text(text, encoding="utf-8") if text else path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
