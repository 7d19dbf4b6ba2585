"""What else the field calls the metrics of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "aggregate_diversity": "distinct_items",
    "arhr": "mrr",
    "arp": "average_popularity",
    "average_precision": "map",
    "average_recommendation_popularity": "average_popularity",
    "catalog_coverage": "item_coverage",
    "click_through_rate": "ctr",
    "coverage": "item_coverage",
    "cross_entropy": "log_loss",
    "ece": "expected_calibration_error",
    "entropy": "shannon_entropy",
    "expected_reciprocal_rank": "err",
    "f1_score": "f1",
    "geometric_map": "gm_map",
    "gini_index": "gini",
    "group_auc": "gauc",
    "hit": "hit_rate",
    "hit_ratio": "hit_rate",
    "hr": "hit_rate",
    "idcg": "ideal_dcg",
    "ild": "list_diversity",
    "intra_list_diversity": "list_diversity",
    "logloss": "log_loss",
    "mean_absolute_error": "mae",
    "mean_average_precision": "map",
    "mean_reciprocal_rank": "mrr",
    "ne": "normalised_entropy",
    "normalized_entropy": "normalised_entropy",
    "num_rel": "relevant",
    "num_rel_ret": "hits",
    "num_ret": "retrieved",
    "r_prec": "r_precision",
    "rank_biased_precision": "rbp",
    "recip_rank": "mrr",
    "reciprocal_rank": "mrr",
    "root_mean_squared_error": "rmse",
    "rprec": "r_precision",
    "rr": "mrr",
    "self_information": "novelty",
    "success": "hit_rate",
    "surprisal": "novelty(unit=share)",
}
"""Another name -> the catalogue's, with the parameter values that the name stands for."""


def aliases(name: str) -> list[str]:
    """What else a metric is called, in alphabetical order.

    Example:
        >>> aliases("hit_rate")
        ['hit', 'hit_ratio', 'hr', 'success']
    """
    return [alias for alias, text in ALIASES.items() if text.partition("(")[0] == name]
