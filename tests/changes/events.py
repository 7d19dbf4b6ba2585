"""Events of users by day, as records of a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

DAY = 86_400
FIRST = 20_454 * DAY
"""2026-01-01, in seconds."""


def events(days: int = 36, *, fall: float = 0.6, lists: int = 500) -> Iterator[dict[str, Any]]:
    """Lists of two variants; those of b fall six days before the end, with a new model."""
    random = np.random.default_rng(3)
    users = 300
    tastes = random.beta(6.0, 14.0, users)
    for day in range(days):
        late = day >= days - 6
        for user in random.integers(0, users, lists).tolist():
            variant = "ab"[user % 2]
            fallen = late and variant == "b"
            clicked = random.random() < tastes[user] * (1.0 - fall * fallen)
            yield {
                "ts": FIRST + day * DAY + int(random.integers(0, DAY)),
                "user": f"u{user}",
                "variant": variant,
                "country": ("de", "fr")[user % 3 == 0],
                "model": "m2" if fallen else "m1",
                "recommendations": ["x", "y"],
                "interactions": ["x"] if clicked else [],
            }
