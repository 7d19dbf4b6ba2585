"""`python -m tests.docs` checks the generated files; --write updates them."""

from __future__ import annotations

import sys

from tests.docs.generated import lagging
from tests.docs.markdown import label


def main() -> int:
    """Print outdated files and, with --write, update them; without it, 1 if there are any."""
    late = lagging()
    print("\n".join(map(label, late)) or "all files are up to date")
    if "--write" not in sys.argv[1:]:
        return bool(late)
    for path, text in late.items():
        path.write_text(text, encoding="utf-8") if text else path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
