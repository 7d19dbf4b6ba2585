"""Which of our metrics answers to which file of another system's numbers.

To add a system: put its files into the folder, and a line for each of its metrics here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from streameval.catalogue.grammar import spelling, written
from tests.conformance import inputs
from tests.conformance.inputs import Inputs, Recorded


class Answer(NamedTuple):
    """How one of our metrics answers.

    metric: our metric, without a cut-off; inputs: how a case is handed over;
    takes: our parameter -> the case's parameter that it is given; "max_k" is the largest cut-off;
    without_errors: our parameters for which users that raise an error are left out;
    unrounded: those for which values are rounded to as many decimals as there can be.
    """

    metric: str
    inputs: Inputs = inputs.lists
    takes: Mapping[str, str] = {}
    without_errors: Mapping[str, Any] = {}
    unrounded: Mapping[str, Any] = {}

    def text(self, params: Recorded, k: int | None, chosen: Mapping[str, Any] = {}) -> str:
        """The metric's text for a case's parameters and cut-off, with more parameters chosen."""
        at = [cut for cut in (k, params.get("at")) if cut is not None]
        known = {**params, "max_k": max(cutoffs(params), default=0)}
        taken = {ours: known[theirs] for ours, theirs in self.takes.items() if theirs in known}
        spelled = spelling(self.metric)
        options = {**dict(spelled.parameters), **taken, **chosen}
        inside = ",".join(f"{name}={written(value)}" for name, value in options.items())
        head = f"{spelled.prefix}:{spelled.name}"
        return head + (f"({inside})" if inside else "") + (f"@{min(at)}" if at else "")

    def in_convention(self, name: str) -> Answer:
        """The same under another convention, one that keeps no rows of its own."""
        return self._replace(metric=f"{name}:{self.metric.partition(':')[2]}")


def cutoffs(params: Recorded) -> list[int]:
    """The cut-offs that a case asks for: none, one, or several at once."""
    k = params.get("k")
    return k if isinstance(k, list) else [] if k is None else [k]


_ROWS = {"rows": "max_k"}

ANSWERS: Mapping[tuple[str, str], Answer] = {
    ("recommenders_jl", "MeanPrecision"): Answer("recommenders_jl:MeanPrecision"),
    ("recommenders_jl", "MeanRecall"): Answer("recommenders_jl:MeanRecall"),
    ("recommenders_jl", "MeanDCG"): Answer("recommenders_jl:MeanDCG"),
    ("recommenders_jl", "MeanNDCG"): Answer("recommenders_jl:MeanNDCG"),
    ("lenskit", "precision"): Answer("lenskit:precision"),
    ("lenskit", "recall"): Answer("lenskit:recall"),
    ("lenskit", "recip_rank"): Answer("lenskit:recip_rank"),
    ("lenskit", "dcg"): Answer("lenskit:dcg", inputs.graded_lists),
    ("lenskit", "compute_ideal_dcgs"): Answer("lenskit:compute_ideal_dcgs", inputs.graded_lists),
    ("lenskit", "ndcg_composed"): Answer("lenskit:ndcg", inputs.graded_lists),
    ("recbole", "hit"): Answer("recbole:hit"),
    ("recbole", "mrr"): Answer("recbole:mrr"),
    ("recbole", "map"): Answer("recbole:map"),
    ("recbole", "recall"): Answer("recbole:recall"),
    ("recbole", "ndcg"): Answer("recbole:ndcg"),
    ("recbole", "precision"): Answer("recbole:precision"),
    ("recbole", "gauc"): Answer("recbole:gauc", inputs.labelled_scores),
    ("recbole", "auc"): Answer("recbole:auc", inputs.samples),
    ("recbole", "log_loss"): Answer("recbole:log_loss", inputs.samples),
    ("recbole", "mae"): Answer("recbole:mae", inputs.ratings),
    ("recbole", "rmse"): Answer("recbole:rmse", inputs.ratings),
    ("replay", "HitRate"): Answer("replay:HitRate", takes=_ROWS),
    ("replay", "Precision"): Answer("replay:Precision", takes=_ROWS),
    ("replay", "MAP"): Answer("replay:MAP", takes=_ROWS),
    ("replay", "Recall"): Answer("replay:Recall", takes=_ROWS),
    ("replay", "MRR"): Answer("replay:MRR", takes=_ROWS),
    ("replay", "NDCG"): Answer("replay:NDCG", takes=_ROWS),
    ("replay", "RocAuc"): Answer("replay:RocAuc", takes=_ROWS),
    ("replay", "Surprisal"): Answer("replay:Surprisal", inputs.lists_and_log, _ROWS),
    ("replay", "Unexpectedness"): Answer("replay:Unexpectedness", inputs.lists_and_baseline, _ROWS),
    ("replay", "Coverage"): Answer("replay:Coverage", inputs.lists_and_logged_items),
    ("capri", "precisionk"): Answer("capri:precisionk", without_errors={"empty_list": "skip"}),
    ("capri", "recallk"): Answer("capri:recallk", without_errors={"empty": "skip"}),
    ("capri", "mapk"): Answer("capri:mapk", takes={"normalizer": "map_k"}),
    ("capri", "dcg"): Answer("capri:dcg", inputs.gains_in_order),
    ("capri", "ndcgk"): Answer(
        "capri:ndcgk",
        inputs.graded_lists,
        unrounded={"digits": 6, "ids": "any"},
    ),
    ("capri", "listDiversity"): Answer(
        "capri:listDiversity", inputs.lists_and_similarity, without_errors={"undefined": "skip"}
    ),
    ("capri", "novelty"): Answer("capri:novelty", inputs.lists_and_popularity),
    ("capri", "catalogCoverage"): Answer("capri:catalogCoverage", inputs.lists_and_catalog),
    ("capri", "personalization"): Answer("capri:personalization", inputs.lists_of_all_users),
    # What the packages of today returned, see record.py.
    **{
        ("lenskit_2025", name): Answer(f"lenskit_2025:{name}", inputs.graded_lists)
        for name in (
            *("Precision", "Recall", "Hit", "RecipRank", "RBP", "NDCG", "DCG", "AveragePrecision"),
            *("NDCG(gain=linear)", "DCG(gain=linear)", "NDCG(discount_by=log2)"),
            *("DCG(base=10,discount_by=log2)", "DCG(base=10)"),
        )
    },
    **{
        ("replay_0_22", name): Answer(f"replay_0_22:{name}")
        for name in ("HitRate", "Precision", "Recall", "MAP", "MRR", "NDCG", "RocAuc")
    },
    ("replay_0_22", "Surprisal"): Answer("replay_0_22:Surprisal", inputs.lists_and_log),
    ("replay_0_22", "Novelty"): Answer("replay_0_22:Novelty", inputs.lists_and_history),
    ("replay_0_22", "Coverage"): Answer("replay_0_22:Coverage", inputs.lists_and_logged_items),
    ("replay_0_22", "Unexpectedness"): Answer(
        "replay_0_22:Unexpectedness", inputs.lists_and_baseline
    ),
    **{
        ("recbole", name): Answer(f"recbole:{name}", inputs.full_lists)
        for name in (
            *("itemcoverage", "giniindex", "shannonentropy", "averagepopularity"),
            *("tailpercentage", "tailpercentage(tail=0.5)", "tailpercentage(tail=3)"),
        )
    },
    **{
        ("rectools", name): Answer(f"rectools:{name}")
        for name in (
            *("Precision", "Recall", "HitRate", "F1Beta", "MAP", "NDCG", "MRR"),
            *("Recall(denominator=ideal)", "F1Beta(beta=2)", "MAP(denominator=k)"),
            "NDCG(best=cut)",
        )
    },
    ("rectools", "MCC"): Answer("rectools:MCC", inputs.lists_and_catalog),
    **{
        ("ranx", name): Answer(f"ranx:{name}", inputs.graded_lists)
        for name in (
            *("hit_rate", "precision", "recall", "f1", "r_precision", "mrr", "map", "dcg", "ndcg"),
            *("dcg(gain=exp2)", "ndcg(gain=exp2)"),
        )
    },
    **{
        ("torchmetrics", f"Retrieval{name}"): Answer(
            f"torchmetrics:Retrieval{name}",
            inputs.graded_lists if name == "NormalizedDCG" else inputs.lists,
        )
        for name in ("HitRate", "Precision", "Recall", "MRR", "MAP", "NormalizedDCG", "RPrecision")
    },
    **{
        ("trec", name): Answer(f"trec:{name}", inputs.graded_lists)
        for name in (
            *("P", "recall", "map_cut", "ndcg_cut", "success", "map", "gm_map", "Rprec", "bpref"),
            *("recip_rank", "ndcg", "set_P", "set_recall", "set_F", "num_ret", "num_rel"),
            "num_rel_ret",
        )
    },
    # The recorded package reaches a recall later than trec_eval's own test output does.
    **{
        ("trec", f"iprec_at_recall_{tenth / 10:.2f}"): Answer(
            f"trec:iprec_at_recall(reached=up,recall={tenth / 10})", inputs.graded_lists
        )
        for tenth in range(11)
    },
    # What the systems' own unit tests call besides.
    ("recommenders_jl", "DCG"): Answer("recommenders_jl:dcg", inputs.graded_lists),
    ("recommenders_jl", "NDCG"): Answer("recommenders_jl:ndcg(gain=exp2)", inputs.graded_lists),
    ("recommenders_jl", "dcg"): Answer("recommenders_jl:dcg", inputs.gains_in_order),
    ("recbole", "gauc.pos_rank_sum"): Answer("recbole:gauc", inputs.labelled_scores),
}
"""(system, its own name) -> our answer."""
