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


SLICES = ("a", "b", "c", "decay", "down", "silent")


def slices(days: int = 50, lists: int = 220) -> Iterator[dict[str, Any]]:
    """Six slices over days, of which the last is open.

    On the six closed days before it, `down` has a new model and falls; `decay` falls day by day for
    three weeks; the last two closed days of `silent` have no list.
    """
    random = np.random.default_rng(11)
    tastes = {name: random.beta(6.0, 14.0, 200) for name in SLICES}
    last = days - 1
    for day in range(days):
        for name in SLICES:
            if name == "silent" and last - 2 <= day < last:
                continue
            fallen = name == "down" and day >= last - 6
            late = max(day - (last - 21), 0) if name == "decay" else 0
            factor = (0.6 if fallen else 1.0) * 0.96**late
            users = random.integers(0, 200, lists)
            clicked = random.random(lists) < tastes[name][users] * factor
            for user, click in zip(users.tolist(), clicked.tolist(), strict=True):
                yield {
                    "ts": FIRST + day * DAY + int(random.integers(0, DAY)),
                    "user": f"{name}{user}",
                    "variant": name,
                    "model": "m2" if fallen else "m1",
                    "recommendations": ["x", "y"],
                    "interactions": ["x"] if click else [],
                }


def audience(days: int = 50, lists: int = 700) -> Iterator[dict[str, Any]]:
    """Two countries that never change; the one with few clicks grows for eight days."""
    random = np.random.default_rng(12)
    for day in range(days):
        poor = random.random(lists) < (0.6 if day >= days - 9 else 0.1)
        users = random.integers(0, 300, lists)
        clicked = random.random(lists) < np.where(poor, 0.1, 0.4)
        for user, of_poor, click in zip(
            users.tolist(), poor.tolist(), clicked.tolist(), strict=True
        ):
            yield {
                "ts": FIRST + day * DAY + int(random.integers(0, DAY)),
                "user": f"{of_poor}{user}",
                "country": "poor" if of_poor else "rich",
                "recommendations": ["x", "y"],
                "interactions": ["x"] if click else [],
            }


def estimates(scale: float, days: int = 40, lists: int = 120) -> Iterator[dict[str, Any]]:
    """Lists with the chances of two policies; seven days before the end clicks fall to a third.

    The mean weight is `scale`, which should be 1.
    """
    random = np.random.default_rng(5)
    for day in range(days):
        clicked = random.random(lists) < (0.3 if day < days - 7 else 0.1)
        for user, click in enumerate(clicked.tolist()):
            yield {
                "ts": FIRST + day * DAY,
                "user": f"u{user}",
                "recommendations": ["x"],
                "interactions": ["x"] if click else [],
                "propensity": [0.5],
                "target": [0.5 * scale],
            }
