"""Conventions: the parameter values and metric names of each evaluation system."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import msgspec

from streameval.catalogue.signature import ParameterValue

Choices: TypeAlias = Mapping[str, ParameterValue]


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


class Convention(msgspec.Struct, frozen=True, dict=True):
    """Convention of one evaluation system for the metrics of the catalogue.

    Attributes:
        system: name and version of the code that values were compared with.
        names: the system's name of a metric -> the catalogue's name, and the parameter values and
            rules that give the system's numbers.
        aliases: other names of the system -> the catalogue's name.
        suffixes: name -> meaning of its numeric suffix: "k" (as in "P_10"), or a parameter.
        rows: whether metrics of hits have the parameter `rows`: those before repeats are removed.
        summarises: whether even a single value, such as coverage, is summarised.
    """

    system: str
    names: Mapping[str, tuple[str, Choices]]
    aliases: Mapping[str, str] = {}
    suffixes: Mapping[str, str] = {}
    rows: bool = False
    summarises: bool = False

    @cached_property
    def metrics(self) -> Mapping[str, Choices]:
        """The catalogue's name of each metric -> its parameter values and rules."""
        return dict(self.names.values())

    @cached_property
    def spellings(self) -> Mapping[str, str]:
        """The names of the system that are not the catalogue's -> the catalogue's name."""
        pairs = (
            (peer_name, ours) for peer_name, (ours, _) in self.names.items() if peer_name != ours
        )
        return {**dict(pairs), **self.aliases}


_JULIA: Choices = {"empty_list": "zero", "counting": "every", "empty": "nan"}
_EVERY: Choices = {"repeats": "every"}
_CAPRI: Choices = {"counting": "every"}

_ALL: Choices = {"relevant": "all"}
_ROWS: Choices = {**_ALL, **_EVERY}
_JOINED: Choices = {**_ROWS, "counting": "joined"}
_LENSKIT: Choices = {"gain": "binary", "discount_by": "log2_rank"}
_SKIP: Choices = {"empty": "skip"}
_ZERO: Choices = {"empty": "zero"}
_RELEVANT: Choices = {**_ALL, **_SKIP}


def _replay(system: str, repeats: str, precision: str, average: str) -> Convention:
    """A version of RePlay; `precision` and `average` are denominators."""
    values: Choices = {"method": "lower", "deviation": "single"}
    lists: Choices = {**values, "repeats": repeats, **_RELEVANT}
    return Convention(
        system=system,
        names={
            "HitRate": ("hit_rate", lists),
            "Precision": ("precision", {**lists, "denominator": precision}),
            "Recall": ("recall", lists),
            "MAP": ("map", {**lists, "denominator": average}),
            "MRR": ("mrr", lists),
            "NDCG": ("ndcg", {**lists, "gain": "binary"}),
            "RocAuc": ("roc_auc", lists),
            "Surprisal": ("novelty", values),
            "Unexpectedness": ("unexpectedness", values),
            "Coverage": ("item_coverage", values),
        },
        rows=repeats == "compact_after_cut",
        summarises=True,
    )


CONVENTIONS: Mapping[str, Convention] = {
    "recommenders_jl": Convention(
        system="Recommenders.jl 0.1.0",
        names={
            "MeanPrecision": ("precision", {"denominator": "length"}),
            "MeanRecall": ("recall", _JULIA),
            "MeanDCG": ("dcg", {**_EVERY, "gain": "exp2"}),
            "MeanNDCG": ("ndcg", {**_JULIA, **_EVERY, "gain": "binary"}),
        },
    ),
    "lenskit": Convention(
        system="LensKit 0.5.0",
        names={
            "precision": ("precision", {**_EVERY, "denominator": "length", "empty_list": "skip"}),
            "recall": ("recall", {**_EVERY, "counting": "every"}),
            "recip_rank": ("mrr", {}),
            "dcg": ("dcg", {**_ROWS, "discount_by": "log2_rank"}),
            "compute_ideal_dcgs": ("ideal_dcg", {**_ALL, "discount_by": "log2_rank"}),
            "ndcg": ("ndcg", _ROWS),
        },
    ),
    "lenskit_2025": Convention(
        system="LensKit 2025.8.1",
        names={
            "Precision": ("precision", {**_ROWS, "denominator": "length"}),
            "Recall": ("recall", {**_ROWS, "empty": "zero", "denominator": "ideal"}),
            "Hit": ("hit_rate", _ALL),
            "AveragePrecision": ("map", {**_ROWS, "empty": "error", "empty_list": "zero"}),
            "RecipRank": ("mrr", _ALL),
            "NDCG": ("ndcg", {**_ROWS, **_LENSKIT, "empty": "zero"}),
            "DCG": ("dcg", {**_ROWS, **_LENSKIT}),
            "RBP": ("rbp", {**_ROWS, "p": 0.85}),
            "ListGini": ("gini", {"over": "catalog", "unknown": "count"}),
        },
    ),
    "recbole": Convention(
        system="RecBole 0.2.1",
        names={
            "hit": ("hit_rate", _ALL),
            "mrr": ("mrr", _ALL),
            "precision": ("precision", _ALL),
            "recall": ("recall", {**_ALL, "empty": "nan"}),
            "map": ("map", {**_ALL, "empty": "zero"}),
            "ndcg": ("ndcg", {**_ALL, "empty": "zero", "gain": "binary"}),
            "gauc": ("gauc", {"single": True}),
            "auc": ("auc", {"positive": "one"}),
            "log_loss": ("log_loss", {"least": 2}),
            "mae": ("mae", {"least": 1}),
            "rmse": ("rmse", {"least": 1}),
            # These were added by RecBole 1.0, and are as in 1.2.1.
            "itemcoverage": ("item_coverage", {}),
            "giniindex": ("gini", {}),
            "shannonentropy": ("shannon_entropy", {}),
            "averagepopularity": ("average_popularity", {}),
            "tailpercentage": ("tail_percentage", {}),
        },
    ),
    "replay": _replay("RePlay 0.10.0", "compact_after_cut", "length", "ideal"),
    "replay_0_9": _replay("RePlay 0.9.0", "compact_before_cut", "length", "ideal"),
    "replay_0_11": _replay("RePlay 0.11.0", "compact_after_cut", "k", "k"),
    "replay_0_22": Convention(
        system="RePlay 0.13 to 0.22",
        names={
            "HitRate": ("hit_rate", _RELEVANT),
            "Precision": ("precision", _RELEVANT),
            "Recall": ("recall", _RELEVANT),
            "MAP": ("map", {**_ROWS, **_SKIP, "counting": "every"}),
            "MRR": ("mrr", _RELEVANT),
            "NDCG": ("ndcg", {**_ROWS, **_SKIP, "counting": "every", "gain": "binary"}),
            "RocAuc": ("roc_auc", {**_ROWS, **_SKIP}),
            "Surprisal": ("novelty", {"denominator": "k", "unit": "share"}),
            "Unexpectedness": ("unexpectedness", {}),
            "Coverage": ("item_coverage", {}),
            "Novelty": ("user_novelty", {}),
        },
        summarises=True,
    ),
    "capri": Convention(
        system="CAPRI (dbbb506)",
        names={
            "precisionk": ("precision", {"denominator": "length", "empty_list": "error"}),
            "recallk": ("recall", {**_CAPRI, "empty": "error"}),
            "mapk": ("map", {**_CAPRI, "empty": "zero"}),
            "dcg": ("dcg", {**_ROWS, "gain": "exp2", "discount_by": "ln"}),
            "ndcgk": ("ndcg", {**_CAPRI, **_ROWS, "empty": "zero", "ids": "integer"}),
            "listDiversity": ("list_diversity", {"undefined": "error"}),
            "novelty": ("novelty", {"undefined": "error"}),
            "catalogCoverage": ("item_coverage", {}),
            "personalization": ("personalization", {}),
        },
    ),
    "rectools": Convention(
        system="RecTools 0.19.0",
        names={
            "HitRate": ("hit_rate", {**_JOINED, **_SKIP}),
            "Precision": ("precision", {**_JOINED, **_SKIP}),
            "Recall": ("recall", {**_JOINED, **_SKIP}),
            "F1Beta": ("f1", {**_JOINED, **_SKIP}),
            "MCC": ("mcc", {}),
            "MAP": ("map", {**_JOINED, "denominator": "interacted"}),
            "NDCG": ("ndcg", {**_JOINED, "gain": "binary"}),
            "MRR": ("mrr", {**_JOINED, **_SKIP}),
            "PAP": ("pap", {}),
            "PartialAUC": ("partial_auc", {}),
        },
    ),
    "ranx": Convention(
        system="ranx 0.3.21",
        names={
            "hit_rate": ("hit_rate", {}),
            "precision": ("precision", {}),
            "recall": ("recall", _ZERO),
            "f1": ("f1", _ZERO),
            "r_precision": ("r_precision", _ZERO),
            "mrr": ("mrr", {}),
            "map": ("map", {**_ZERO, "denominator": "interacted"}),
            "dcg": ("dcg", {}),
            "ndcg": ("ndcg", _ZERO),
            "rbp": ("rbp", {"gain": "linear", "max_grade": 0.0}),
            "bpref": ("bpref", _ZERO),
        },
    ),
    "torchmetrics": Convention(
        system="torchmetrics 1.9.0",
        names={
            "RetrievalHitRate": ("hit_rate", {}),
            "RetrievalPrecision": ("precision", {}),
            "RetrievalRecall": ("recall", _ZERO),
            "RetrievalRPrecision": ("r_precision", _ZERO),
            "RetrievalMRR": ("mrr", {}),
            "RetrievalMAP": ("map", _ZERO),
            "RetrievalNormalizedDCG": ("ndcg", _ZERO),
        },
    ),
    "trec": Convention(
        system="trec_eval 9.0.8",
        names={
            "map_cut": ("map", {**_ZERO, "denominator": "interacted"}),
            "gm_map": ("gm_map", {**_ZERO, "denominator": "interacted"}),
            "Rprec": ("r_precision", _ZERO),
            "bpref": ("bpref", _ZERO),
            "recip_rank": ("mrr", {}),
            "iprec_at_recall": ("iprec_at_recall", _ZERO),
            "P": ("precision", {}),
            "recall": ("recall", _ZERO),
            "set_F": ("f1", {**_ZERO, "denominator": "length"}),
            "ndcg_cut": ("ndcg", _ZERO),
            "success": ("hit_rate", {}),
            "num_rel_ret": ("hits", {}),
            "num_rel": ("relevant", {}),
            "num_ret": ("retrieved", {}),
        },
        aliases={"set_P": "precision", "set_recall": "recall"},
        suffixes={
            **dict.fromkeys(("P", "recall", "map_cut", "ndcg_cut", "success"), "k"),
            "iprec_at_recall": "recall",
        },
    ),
}
