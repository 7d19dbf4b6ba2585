"""Pipelines that are fuzzed: much of what can be configured, over records of one or two streams."""

from __future__ import annotations

from pathlib import Path

from streameval.config import Config, load

METRICS = """
catalog = 10
source = { type = "files", paths = ["shown", "clicked"] }
metrics = ["ndcg@3", "recbole:ndcg@3", "capri:recall@2", "mrr", "map@2", "ctr@2", "auc", "mae",
    "gauc", "item_coverage@2", "gini@2", "personalization@2", "value_per_list", "rbp(p=0.8)@3",
    "ndcg(statistic=median)@3", "hit_rate(type=purchase)", "users_covered@2", "novelty@2"]
"""

_PLAIN = (
    """
labels = ["variant"]
segments = ["campaign"]
label_cap = 2
max_series = 5
dedup = "10m"
windows = { spans = ["5m", "1h", "24h"] }
event = { time = "ts", time_unit = "s", event_id = "user", positions = "ranks" }
""",
    """
max_items = 2
labels = ["variant"]
intervals = { groups = 64 }
event = { ids = "integer", max_recommendations = 3, max_interactions = 3 }
""",
    """
windows = { spans = ["5m"] }
[event]
recommendations = "payload.items[].id"
interactions = "payload.clicks"
time = "at"
time_unit = "iso8601"
""",
)

_JOINED = (
    """
[attribution]
impressions = "shown"
window = "5m"
lateness = "1m"
combine = "sum"
interactions = [{ source = "clicked", event_id = "event_id", gain = "gain" }]
""",
    """
[attribution]
impressions = "shown"
key = "user_item"
window = "5m"
lateness = "1m"
per = ["variant"]
max_open = 50
interactions = [{ source = "clicked", types = { click = 1, purchase = 3 } }]
""",
)

_JOINED_EVENT = """
labels = ["variant"]
windows = { spans = ["5m", "1h"] }
event = { time = "ts", time_unit = "s" }
"""


def plain(folder: Path) -> list[Config]:
    """Records that are events."""
    return [_loaded(folder, METRICS + _popular(folder) + text) for text in _PLAIN]


def joined(folder: Path) -> list[Config]:
    """Two streams, joined by each kind of key."""
    metrics = METRICS + _popular(folder)
    return [_loaded(folder, metrics + _JOINED_EVENT + text) for text in _JOINED]


def _popular(folder: Path) -> str:
    path = folder / "popularity.csv"
    path.write_text("1,5\n2,1\n")
    return f'popularity = {{ path = "{path}" }}\n'


def _loaded(folder: Path, text: str) -> Config:
    path = folder / "streameval.toml"
    path.write_text(text)
    return load(path)
