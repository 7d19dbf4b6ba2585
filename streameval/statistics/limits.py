"""Largest numbers of items and users that statistics keep."""

from __future__ import annotations

from typing import Final

MAX_ITEMS: Final = 1_000_000

MOST_USERS: Final = 16_384
"""Users kept per cell, except of an experiment."""

EXPERIMENT_USERS: Final = 2 * 262_144
"""Users kept of each variant of an experiment; thinning halves them, so 262,144 stay."""

PANE_USERS: Final = 512
"""Users of a pane or window whose sums are kept."""
