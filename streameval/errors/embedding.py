"""What goes wrong where accumulators live in someone's own program."""

from __future__ import annotations

from streameval.errors.root import StreamevalError


class NotShownError(StreamevalError):
    """Accumulators cannot be shown as they were given."""

    def __init__(self, found: str, remedy: str) -> None:
        self.found = found
        self.remedy = remedy
        super().__init__(f"these accumulators cannot be shown: {found}; {remedy}.")
