"""`python -m tests.conformance --write` writes the generated page anew."""

from __future__ import annotations

import sys

from tests.conformance.pages import PAGE, page

if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(__doc__)
    PAGE.write_text(page(), encoding="utf-8")
