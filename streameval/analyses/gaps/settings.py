"""The settings of gaps."""

from __future__ import annotations

import math

import msgspec


class GapOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A gap that is watched.

    Attributes:
        by: label or segment whose values are compared.
        metrics: metrics compared; empty: all means that are kept by it.
        at_most: largest accepted difference; `StreamevalGap` fires when it is certainly larger.

    Example:
        >>> GapOptions(by="country", metrics=["ndcg@10"], at_most=0.05).by
        'country'
    """

    by: str
    metrics: list[str] = []
    at_most: float | None = None

    @property
    def problem(self) -> str | None:
        """Why `at_most` is not valid, or None."""
        if self.at_most is None or 0 < self.at_most < math.inf:
            return None
        return f"found {self.at_most!r}; give a difference above 0, in the unit of the metric."
