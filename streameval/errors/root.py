"""What all errors of this package have in common."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(text: str, known: Iterable[str]) -> list[str]:
    """The names a misspelt one may have meant, best first; at most three."""
    return difflib.get_close_matches(text.lower(), list(known), n=3, cutoff=0.6)


class StreamevalError(Exception):
    """Root of all errors raised on purpose by this package."""
