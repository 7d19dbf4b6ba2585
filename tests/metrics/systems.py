"""What copied systems do otherwise than the formula of a metric, as parameters of its twin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OF_REPLAY: Mapping[str, Any] = {
    "novelty": {"denominator": "k", "unit": "share", "repeats": "compact_after_cut"},
    "unexpectedness": {"repeats": "compact_after_cut"},
    "item_coverage": {"unknown": "count", "no_lists": "zero"},
}
_JOINED: Mapping[str, Any] = {"relevant": "all", "repeats": "every"}

STEPS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "recommenders_jl": {"ndcg": {"best": "list"}},
    "lenskit": {"ndcg": {"best": "whole", "discount_by": "log2_rank"}},
    "lenskit_2025": {"map": {"denominator": "shown"}, "ndcg": {"worthless": "zero"}},
    "recbole": {
        "item_coverage": {"unknown": "count", "padding": 1},
        "gini": {"over": "catalog", "unknown": "count", "padding": 1},
        "shannon_entropy": {"unit": "nats", "divisor": "items"},
        "tail_percentage": {"tail": 0.1, "ties": "id", "unknown": "head"},
        "log_loss": {"outcome": "gain"},
    },
    "replay": _OF_REPLAY,
    "replay_0_9": {
        **_OF_REPLAY,
        "novelty": {**_OF_REPLAY["novelty"], "repeats": "compact_before_cut"},
        "unexpectedness": {"repeats": "compact_before_cut"},
    },
    "replay_0_11": _OF_REPLAY,
    "replay_0_22": {"unexpectedness": {"missing": "zero"}, "user_novelty": {"gaps": "new"}},
    "capri": {
        "map": {"normalizer": 10},
        "ndcg": {"best": "whole", "digits": 4, "gain": "exp2", "discount_by": "ln"},
        "novelty": {"denominator": "k", "cold": "zero", "cut": False},
        "item_coverage": {"unknown": "count", "percent_digits": 2, "no_lists": "zero"},
        "personalization": {"unlike": "refuse"},
    },
    "rectools": {
        "mcc": {**_JOINED, "unknown": "count", "denominator": "k"},
        "ndcg": {"best": "ranks"},
        "pap": _JOINED,
        "partial_auc": _JOINED,
    },
    "torchmetrics": {"map": {"denominator": "hits"}},
}
"""Convention -> metric -> parameters of the twin."""
