"""Conventions: the parameter values and metric names of each evaluation system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from streameval.catalogue.signature import Value

Choices: TypeAlias = Mapping[str, Value]


RULES: Choices = {
    "counting": "distinct",
    "ids": "any",
    "empty_list": "any",
    "method": "linear",
    "deviation": "double",
    "undefined": "skip",
    "least": 0,
    "positive": "relevant",
    "single": False,
}
"""What systems do that no metric has as a parameter, as it is without a convention."""


class Convention(msgspec.Struct, frozen=True):
    """How one evaluation system computes the metrics of the catalogue.

    Attributes:
        system: name and version of the code that values were compared with.
        metrics: metric -> parameter values, and rules, that give the system's numbers.
        spellings: the system's name -> the catalogue's name.
        suffixes: name -> meaning of its numeric suffix: "k" (as in "P_10"), or a parameter.
        rows: whether metrics of hits have the parameter `rows`: those before repeats are removed.
        summarises: whether even a single value, such as coverage, is summarised.
    """

    system: str
    metrics: Mapping[str, Choices]
    spellings: Mapping[str, str] = {}
    suffixes: Mapping[str, str] = {}
    rows: bool = False
    summarises: bool = False


_JULIA: Choices = {"empty_list": "zero"}
_CAPRI: Choices = {"counting": "every"}

_ALL: Choices = {"relevant": "all"}
_ROWS: Choices = {**_ALL, "repeats": "every"}
_JOINED: Choices = {**_ROWS, "counting": "joined"}
_LENSKIT: Choices = {"gain": "binary", "discount_by": "log2_rank"}
_SKIP: Choices = {"empty": "skip"}
_ZERO: Choices = {"empty": "zero"}

_REPLAY: Mapping[str, str] = {
    "HitRate": "hit_rate",
    "Precision": "precision",
    "Recall": "recall",
    "MAP": "map",
    "MRR": "mrr",
    "NDCG": "ndcg",
    "RocAuc": "roc_auc",
    "Surprisal": "novelty",
    "Unexpectedness": "unexpectedness",
    "Coverage": "item_coverage",
}


def _replay(system: str, repeats: str, precision: str, average: str) -> Convention:
    """A version of RePlay; `precision` and `average` are denominators."""
    values: Choices = {"method": "lower", "deviation": "single"}
    lists: Choices = {**values, "repeats": repeats, **_ALL, **_SKIP}
    return Convention(
        system=system,
        metrics={
            "hit_rate": lists,
            "precision": {**lists, "denominator": precision},
            "recall": lists,
            "map": {**lists, "denominator": average},
            "mrr": lists,
            "ndcg": {**lists, "gain": "binary"},
            "roc_auc": lists,
            "novelty": values,
            "unexpectedness": values,
            "item_coverage": values,
        },
        spellings=_REPLAY,
        rows=repeats == "compact_after_cut",
        summarises=True,
    )


CONVENTIONS: Mapping[str, Convention] = {
    "recommenders_jl": Convention(
        system="Recommenders.jl 0.1.0",
        metrics={
            "precision": {"denominator": "length"},
            "recall": {**_JULIA, "counting": "every", "empty": "nan"},
            "dcg": {"repeats": "every", "gain": "exp2"},
            "ndcg": {
                **_JULIA,
                "repeats": "every",
                "counting": "every",
                "empty": "nan",
                "gain": "binary",
            },
        },
        spellings={
            "MeanPrecision": "precision",
            "MeanRecall": "recall",
            "MeanDCG": "dcg",
            "MeanNDCG": "ndcg",
        },
    ),
    "lenskit": Convention(
        system="LensKit 0.5.0",
        metrics={
            "precision": {"repeats": "every", "denominator": "length", "empty_list": "skip"},
            "recall": {"repeats": "every", "counting": "every"},
            "mrr": {},
            "dcg": {"repeats": "every", "relevant": "all", "discount_by": "log2_rank"},
            "ideal_dcg": {"relevant": "all", "discount_by": "log2_rank"},
            "ndcg": {"repeats": "every", "relevant": "all"},
        },
        spellings={"recip_rank": "mrr", "compute_ideal_dcgs": "ideal_dcg"},
    ),
    "lenskit_2025": Convention(
        system="LensKit 2025.8.1",
        metrics={
            "precision": {**_ROWS, "denominator": "length"},
            "recall": {**_ROWS, "empty": "zero", "denominator": "ideal"},
            "hit_rate": _ALL,
            "map": {**_ROWS, "empty": "error", "empty_list": "zero"},
            "mrr": _ALL,
            "ndcg": {**_ROWS, **_LENSKIT, "empty": "zero"},
            "dcg": {**_ROWS, **_LENSKIT},
            "rbp": {**_ROWS, "p": 0.85},
            "gini": {"over": "catalog", "unknown": "count"},
        },
        spellings={
            "Precision": "precision",
            "Recall": "recall",
            "Hit": "hit_rate",
            "AveragePrecision": "map",
            "RecipRank": "mrr",
            "NDCG": "ndcg",
            "DCG": "dcg",
            "RBP": "rbp",
            "ListGini": "gini",
        },
    ),
    "recbole": Convention(
        system="RecBole 0.2.1",
        metrics={
            "hit_rate": _ALL,
            "mrr": _ALL,
            "precision": _ALL,
            "recall": {**_ALL, "empty": "nan"},
            "map": {**_ALL, "empty": "zero"},
            "ndcg": {**_ALL, "empty": "zero", "gain": "binary"},
            "gauc": {"single": True},
            "auc": {"positive": "one"},
            "log_loss": {"least": 2},
            "mae": {"least": 1},
            "rmse": {"least": 1},
            # These were added by RecBole 1.0, and are as in 1.2.1.
            "item_coverage": {},
            "gini": {},
            "shannon_entropy": {},
            "average_popularity": {},
            "tail_percentage": {},
        },
        spellings={
            "hit": "hit_rate",
            "itemcoverage": "item_coverage",
            "giniindex": "gini",
            "shannonentropy": "shannon_entropy",
            "averagepopularity": "average_popularity",
            "tailpercentage": "tail_percentage",
        },
    ),
    "replay": _replay("RePlay 0.10.0", "compact_after_cut", "length", "ideal"),
    "replay_0_9": _replay("RePlay 0.9.0", "compact_before_cut", "length", "ideal"),
    "replay_0_11": _replay("RePlay 0.11.0", "compact_after_cut", "k", "k"),
    "replay_0_22": Convention(
        system="RePlay 0.13 to 0.22",
        metrics={
            "hit_rate": {**_ALL, **_SKIP},
            "precision": {**_ALL, **_SKIP},
            "recall": {**_ALL, **_SKIP},
            "map": {**_ROWS, **_SKIP, "counting": "every"},
            "mrr": {**_ALL, **_SKIP},
            "ndcg": {**_ROWS, **_SKIP, "counting": "every", "gain": "binary"},
            "roc_auc": {**_ROWS, **_SKIP},
            "novelty": {"denominator": "k", "unit": "share"},
            "unexpectedness": {},
            "item_coverage": {},
            "user_novelty": {},
        },
        spellings={**_REPLAY, "Novelty": "user_novelty"},
        summarises=True,
    ),
    "capri": Convention(
        system="CAPRI (dbbb506)",
        metrics={
            "precision": {"denominator": "length", "empty_list": "error"},
            "recall": {**_CAPRI, "empty": "error"},
            "map": {**_CAPRI, "empty": "zero"},
            "dcg": {"repeats": "every", "relevant": "all", "gain": "exp2", "discount_by": "ln"},
            "ndcg": {**_CAPRI, **_ALL, "repeats": "every", "empty": "zero", "ids": "integer"},
            "list_diversity": {"undefined": "error"},
            "novelty": {"undefined": "error"},
            "item_coverage": {},
            "personalization": {},
        },
        spellings={
            "precisionk": "precision",
            "recallk": "recall",
            "mapk": "map",
            "ndcgk": "ndcg",
            "listDiversity": "list_diversity",
            "catalogCoverage": "item_coverage",
        },
    ),
    "rectools": Convention(
        system="RecTools 0.19.0",
        metrics={
            "hit_rate": {**_JOINED, **_SKIP},
            "precision": {**_JOINED, **_SKIP},
            "recall": {**_JOINED, **_SKIP},
            "f1": {**_JOINED, **_SKIP},
            "mcc": {},
            "map": {**_JOINED, "denominator": "interacted"},
            "ndcg": {**_JOINED, "gain": "binary"},
            "mrr": {**_JOINED, **_SKIP},
            "pap": {},
            "partial_auc": {},
        },
        spellings={
            "HitRate": "hit_rate",
            "Precision": "precision",
            "Recall": "recall",
            "F1Beta": "f1",
            "MCC": "mcc",
            "MAP": "map",
            "NDCG": "ndcg",
            "MRR": "mrr",
            "PAP": "pap",
            "PartialAUC": "partial_auc",
        },
    ),
    "ranx": Convention(
        system="ranx 0.3.21",
        metrics={
            "hit_rate": {},
            "precision": {},
            "recall": _ZERO,
            "f1": _ZERO,
            "r_precision": _ZERO,
            "mrr": {},
            "map": {**_ZERO, "denominator": "interacted"},
            "dcg": {},
            "ndcg": _ZERO,
            "rbp": {"gain": "linear", "max_grade": 0.0},
            "bpref": _ZERO,
        },
    ),
    "torchmetrics": Convention(
        system="torchmetrics 1.9.0",
        metrics={
            "hit_rate": {},
            "precision": {},
            "recall": _ZERO,
            "r_precision": _ZERO,
            "mrr": {},
            "map": _ZERO,
            "ndcg": _ZERO,
        },
        spellings={
            "RetrievalHitRate": "hit_rate",
            "RetrievalPrecision": "precision",
            "RetrievalRecall": "recall",
            "RetrievalRPrecision": "r_precision",
            "RetrievalMRR": "mrr",
            "RetrievalMAP": "map",
            "RetrievalNormalizedDCG": "ndcg",
        },
    ),
    "trec": Convention(
        system="trec_eval 9.0.8",
        metrics={
            "map": {**_ZERO, "denominator": "interacted"},
            "gm_map": {**_ZERO, "denominator": "interacted"},
            "r_precision": _ZERO,
            "bpref": _ZERO,
            "mrr": {},
            "iprec_at_recall": _ZERO,
            "precision": {},
            "recall": _ZERO,
            "f1": {**_ZERO, "denominator": "length"},
            "ndcg": _ZERO,
            "hit_rate": {},
            "hits": {},
            "relevant": {},
            "retrieved": {},
        },
        spellings={
            "map_cut": "map",
            "Rprec": "r_precision",
            "recip_rank": "mrr",
            "P": "precision",
            "recall": "recall",
            "set_P": "precision",
            "set_recall": "recall",
            "set_F": "f1",
            "ndcg_cut": "ndcg",
            "success": "hit_rate",
            "num_rel_ret": "hits",
            "num_rel": "relevant",
            "num_ret": "retrieved",
        },
        suffixes={
            "P": "k",
            "recall": "k",
            "map_cut": "k",
            "ndcg_cut": "k",
            "success": "k",
            "iprec_at_recall": "recall",
        },
    ),
}
