"""Guesses the form of the next record, so that hardly any is tried in vain."""

from __future__ import annotations

_MOST_DOUBLINGS = 6


class Expectation:
    """Which of the compiled forms the next record is tried in; a guess changes speed only.

    A single record of another form changes nothing; two in a row, and the next form is tried;
    when none fits, trying pauses for longer and longer, up to 64 records.

    Args:
        forms: how many there are.

    Attributes:
        form: which one to try.
        pause: for how many records not to try at all.
    """

    __slots__ = ("_forms", "_misses", "form", "pause")

    def __init__(self, forms: int) -> None:
        self._forms = forms
        self._misses = 0
        self.form = 0
        self.pause = 0

    def missed(self, *, since: int) -> None:
        """A valid record had another form; `since` so many before it had the one tried."""
        self._misses = 1 if since else self._misses + 1
        if self._misses > 1:
            self.form = (self.form + 1) % self._forms
        if self._misses > self._forms:
            self.pause = 2 ** min(self._misses - self._forms, _MOST_DOUBLINGS)
