"""Random tables of impressions and interactions, and the rules of their joins."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from streameval.attribution import Attribution
from tests.join.slow_tables import Row, Rule

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
ITEMS = [f"i{number}" for number in range(9)]
TYPES = ["click", "cart", "view", "hover"]
SHOWN_KINDS = pa.schema(
    {
        "recommendations": pa.list_(pa.string()),
        "times": pa.int64(),
        "request_id": pa.string(),
        "users": pa.string(),
        "variant": pa.string(),
    }
)
ACT_KINDS = pa.schema(
    {
        "times": pa.int64(),
        "item": pa.string(),
        "request_id": pa.string(),
        "users": pa.string(),
        "type": pa.string(),
        "gain": pa.float64(),
        "event_id": pa.string(),
        "stream": pa.int64(),
    }
)


class World(NamedTuple):
    """Rows and a rule."""

    impressions: Sequence[Row]
    interactions: Sequence[Row]
    rule: Rule

    @property
    def attribution(self) -> Attribution:
        rule = self.rule
        return Attribution(
            key=rule.key,  # type: ignore[arg-type]  # text
            window=f"{rule.window // SECOND}s",
            lateness=f"{rule.lateness // SECOND}s",
            combine=rule.combine,  # type: ignore[arg-type]  # likewise
            per=[*rule.per],
            types=dict(rule.types),
            ignore=[*rule.ignore],
        )

    @property
    def impression_table(self) -> Any:
        return pa.Table.from_pylist(self.impressions, SHOWN_KINDS)

    @property
    def interaction_table(self) -> Any:
        table = pa.Table.from_pylist(self.interactions, ACT_KINDS)
        return table.rename_columns({"users": "user"})


def world(seed: int, size: int = 30) -> World:
    """Lists and interactions with copies, changed copies, re-used ids, ties, edges, and nulls."""
    random = Random(seed)
    by_user = random.random() < 0.5
    rule = Rule(
        key="user_item" if by_user else "request_id",
        window=random.choice([1, 5, 30]) * SECOND,
        lateness=random.choice([0, 4]) * SECOND,
        combine=random.choice(["max", "sum"]),
        per=["variant"] if by_user and random.random() < 0.5 else [],
        types=random.choice([{}, {"click": 1.0, "cart": 3.0}]),
        ignore=random.choice([[], ["view"]]),
    )
    users = [f"u{number}" for number in range(random.choice([2, 10]))]
    span = random.choice([10, 200]) * SECOND
    impressions = [_list(random, number, span, users) for number in range(size)]
    interactions = [
        _act(random, random.choice(impressions), number, rule) for number in range(size)
    ]
    impressions += _changed(random, impressions, rule)
    interactions += _changed(random, interactions, rule)
    for row in random.sample([*impressions, *interactions], size // 10):
        row[random.choice(["request_id", "users", "times"])] = None
    random.choice(impressions)["recommendations"] = None
    random.choice(interactions)["gain"] = float("inf")
    return World(impressions, interactions, rule)


def _list(random: Random, number: int, span: int, users: list[str]) -> dict[str, Any]:
    return {
        # Whole seconds, so that some times are equal and on the edges of windows.
        "times": START + random.randrange(0, span, SECOND),
        "request_id": f"r{number if random.random() < 0.9 else random.randrange(number + 1)}",
        "users": random.choice(users),
        "variant": random.choice(["x", "y", None]),
        "recommendations": random.choices(ITEMS, k=random.randint(0, 4)),
    }


def _act(random: Random, of: Row, number: int, rule: Rule) -> dict[str, Any]:
    edge = random.choice([0, rule.window, random.randrange(rule.window)])
    return {
        "times": of["times"] + edge + random.choice([-1, 0, 0, 1]) * 1_000,
        "request_id": of["request_id"],
        "users": of["users"],
        "item": random.choice([*of["recommendations"], random.choice(ITEMS)]),
        "type": random.choice([*TYPES, None]),
        "gain": random.choice([None, None, 1.0, 0.1, -2.5, 0.7]),
        "event_id": random.choice([f"e{number % 5}", f"e{number}", None]),
        "stream": random.choice([1, 2]),
    }


def _changed(random: Random, rows: list[dict[str, Any]], rule: Rule) -> list[dict[str, Any]]:
    """Copies: equal, at once with other content, or later."""
    copies = []
    for row in random.sample(rows, len(rows) // 3):
        copy = dict(row)
        change = random.choice(["none", "content", "later"])
        if change == "content" and "item" in row:
            copy["gain"] = random.choice([0.3, 4.0])
        elif change == "content":
            copy |= {"variant": "z", "recommendations": random.choices(ITEMS, k=2)}
        elif change == "later":
            longest = rule.window + rule.lateness
            copy["times"] += random.choice([1_000, rule.window, longest, longest + 1_000])
        copies.append(copy)
    return copies
