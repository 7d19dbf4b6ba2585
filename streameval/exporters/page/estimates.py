"""Estimates for policies that were not shown, on the page: what they assume, said first."""

from __future__ import annotations

from streameval.engine.snapshot import Snapshot
from streameval.exporters.page.markup import Markup, tag
from streameval.exporters.view import CAUTION, has_estimates


def caution(snapshot: Snapshot | None) -> Markup:
    """The sentence about estimates; empty without any."""
    if snapshot is None or not has_estimates(entry.metric for entry in snapshot.series):
        return Markup()
    return tag("p", tag("strong", "estimate"), ": ", CAUTION, id="estimates")
