"""What each system means by a name: named sets of parameter values, and each system's spellings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from streameval.metric import Value

Choices: TypeAlias = Mapping[str, Value]


class Convention(msgspec.Struct, frozen=True):
    """One system's meaning of the catalogue's names.

    Attributes:
        system: what it is, with the version whose code was compared.
        metrics: metric -> the parameter values that give the system's numbers.
        spellings: the system's own name -> the catalogue's.
        cut_in_name: whether the system writes cut-offs into its names: "P_10".
    """

    system: str
    metrics: Mapping[str, Choices]
    spellings: Mapping[str, str] = {}
    cut_in_name: bool = False


_JULIA: Choices = {"empty_list": "zero"}
_CAPRI: Choices = {"counting": "every"}

_TREC: Choices = {"empty": "zero"}


def _replay(system: str, repeats: str, precision: str, average: str) -> Convention:
    """A version of RePlay; what its precision and average precision are divided by."""
    values: Choices = {"method": "lower", "deviation": "single"}
    every: Choices = {**values, "repeats": repeats}
    lists: Choices = {**every, "empty": "skip"}
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
            "novelty": {**every, "denominator": "k", "unit": "share"},
            "unexpectedness": every,
            "item_coverage": {**values, "unknown": "count", "no_lists": "zero"},
        },
        spellings={
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
        },
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
                "best": "list",
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
            "ndcg": {
                "repeats": "every",
                "relevant": "all",
                "discount_by": "log2_rank",
                "best": "whole",
            },
        },
        spellings={"recip_rank": "mrr", "compute_ideal_dcgs": "ideal_dcg"},
    ),
    "recbole": Convention(
        system="RecBole 0.2.1",
        metrics={
            "hit_rate": {},
            "mrr": {},
            "precision": {},
            "recall": {"empty": "nan"},
            "map": {"empty": "zero"},
            "ndcg": {"empty": "zero", "gain": "binary"},
            "gauc": {"single": True},
            "auc": {"positive": "one"},
            "log_loss": {"least": 2, "outcome": "gain"},
            "mae": {"least": 1},
            "rmse": {"least": 1},
        },
        spellings={"hit": "hit_rate"},
    ),
    "replay": _replay("RePlay 0.10.0", "compact_after_cut", "length", "ideal"),
    "replay_0_9": _replay("RePlay 0.9.0", "compact_before_cut", "length", "ideal"),
    "replay_0_11": _replay("RePlay 0.11.0", "compact_after_cut", "k", "k"),
    "capri": Convention(
        system="CAPRI (dbbb506)",
        metrics={
            "precision": {"denominator": "length", "empty_list": "error"},
            "recall": {**_CAPRI, "empty": "error"},
            "map": {**_CAPRI, "empty": "zero", "normalizer": 10},
            "dcg": {
                "repeats": "every",
                "relevant": "all",
                "gain": "exp2",
                "discount_by": "ln",
            },
            "ndcg": {
                **_CAPRI,
                "repeats": "every",
                "relevant": "all",
                "empty": "zero",
                "gain": "exp2",
                "discount_by": "ln",
                "best": "whole",
                "digits": 4,
                "ids": "integer",
            },
            "list_diversity": {"undefined": "error"},
            "novelty": {"denominator": "k", "cold": "zero", "cut": False, "undefined": "error"},
            "item_coverage": {"unknown": "count", "percent_digits": 2, "no_lists": "zero"},
            "personalization": {"unlike": "refuse"},
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
    "trec": Convention(
        system="trec_eval 9.0.8",
        metrics={
            "map": {**_TREC, "denominator": "interacted"},
            "gm_map": {**_TREC, "denominator": "interacted"},
            "r_precision": _TREC,
            "bpref": _TREC,
            "mrr": {},
            "iprec_at_recall": _TREC,
            "precision": {},
            "recall": _TREC,
            "ndcg": _TREC,
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
            "ndcg_cut": "ndcg",
            "success": "hit_rate",
            "num_rel_ret": "hits",
            "num_rel": "relevant",
            "num_ret": "retrieved",
        },
        cut_in_name=True,
    ),
}
