"""Which of our metrics answers to which file of another system's numbers.

To add a system: put its files into the folder, and a line for each of its metrics here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from streameval.catalogue.conventions import CONVENTIONS
from streameval.catalogue.grammar import format_value, spelling
from tests.conformance import inputs
from tests.conformance.inputs import Inputs, Recorded


class Answer(NamedTuple):
    """How one of our metrics answers.

    metric: our metric, without a cut-off; inputs: how a case is handed over;
    takes: our parameter -> the case's parameter that it is given; "max_k" is the largest cut-off;
    unrounded: the metric of each user's value before it is rounded.
    """

    metric: str
    inputs: Inputs = inputs.lists
    takes: Mapping[str, str] = {}
    unrounded: Answer | None = None

    def text(self, params: Recorded, k: int | None, chosen: Mapping[str, Any] = {}) -> str:
        """The metric's text for a case's parameters and cut-off, with more parameters chosen."""
        at = [cut for cut in (k, params.get("at")) if cut is not None]
        all_params = {**params, "max_k": max(cutoffs(params), default=0)}
        taken = {
            ours: all_params[theirs] for ours, theirs in self.takes.items() if theirs in all_params
        }
        spelled = spelling(self.metric)
        options = {**dict(spelled.parameters), **taken, **chosen}
        inside = ",".join(f"{name}={format_value(value)}" for name, value in options.items())
        head = f"{spelled.prefix}:{spelled.name}"
        return head + (f"({inside})" if inside else "") + (f"@{min(at)}" if at else "")

    def in_convention(self, name: str) -> Answer:
        """The same under another convention."""
        metric = f"{name}:{self.metric.partition(':')[2]}"
        return self._replace(metric=metric, takes=self.takes if CONVENTIONS[name].rows else {})


def cutoffs(params: Recorded) -> list[int]:
    """The cut-offs that a case asks for: none, one, or several at once."""
    k = params.get("k")
    return k if isinstance(k, list) else [] if k is None else [k]


_ROWS = {"rows": "max_k"}


def _named(system: str, *names: str, **how: Any) -> Mapping[tuple[str, str], Answer]:
    """Metrics that we call what the system calls them, and that are handed over alike."""
    return {(system, name): Answer(f"{system}:{name}", **how) for name in names}


ANSWERS: Mapping[tuple[str, str], Answer] = {
    **_named("recommenders_jl", "MeanPrecision", "MeanRecall", "MeanDCG", "MeanNDCG"),
    **_named("lenskit", "precision", "recall", "recip_rank"),
    **_named("lenskit", "dcg", "compute_ideal_dcgs", inputs=inputs.graded_lists),
    ("lenskit", "ndcg_composed"): Answer("lenskit:ndcg", inputs.graded_lists),
    **_named("recbole", "hit", "mrr", "map", "recall", "ndcg", "precision"),
    **_named("recbole", "gauc", inputs=inputs.labelled_scores),
    **_named("recbole", "auc", "log_loss", inputs=inputs.samples),
    **_named("recbole", "mae", "rmse", inputs=inputs.ratings),
    **_named("replay", "HitRate", "Precision", "MAP", "Recall", "MRR", "NDCG", takes=_ROWS),
    **_named("replay", "RocAuc", takes=_ROWS),
    **_named("replay", "Surprisal", inputs=inputs.lists_and_log, takes=_ROWS),
    **_named("replay", "Unexpectedness", inputs=inputs.lists_and_baseline, takes=_ROWS),
    **_named("replay", "Coverage", inputs=inputs.lists_and_logged_items),
    **_named("capri", "precisionk"),
    **_named("capri", "recallk"),
    **_named("capri", "mapk", takes={"normalizer": "map_k"}),
    **_named("capri", "dcg", inputs=inputs.gains_in_order),
    **_named(
        "capri",
        "ndcgk",
        inputs=inputs.graded_lists,
        unrounded=Answer(
            "lenskit:ndcg(discount_by=ln,empty=zero,gain=exp2)", inputs.graded_lists_of_distinct
        ),
    ),
    **_named("capri", "listDiversity", inputs=inputs.lists_and_similarity),
    **_named("capri", "novelty", inputs=inputs.lists_and_popularity),
    **_named("capri", "catalogCoverage", inputs=inputs.lists_and_catalog),
    **_named("capri", "personalization", inputs=inputs.lists_of_all_users),
    # What the packages of today returned, see record.py.
    **_named(
        "lenskit_2025",
        *("Precision", "Recall", "Hit", "RecipRank", "RBP", "NDCG", "DCG", "AveragePrecision"),
        *("NDCG(gain=linear)", "DCG(gain=linear)", "NDCG(discount_by=log2)"),
        *("DCG(base=10,discount_by=log2)", "DCG(base=10)"),
        inputs=inputs.graded_lists,
    ),
    **_named("lenskit_2025", "ListGini", inputs=inputs.lists_and_catalog),
    **_named(
        "replay_0_22",
        *("HitRate", "Precision", "Recall", "MAP", "MRR", "NDCG", "RocAuc"),
        inputs=inputs.graded_lists,
    ),
    **_named("replay_0_22", "Surprisal", inputs=inputs.lists_and_log),
    **_named("replay_0_22", "Novelty", inputs=inputs.lists_and_history),
    **_named("replay_0_22", "Coverage", inputs=inputs.lists_and_logged_items),
    **_named("replay_0_22", "Unexpectedness", inputs=inputs.lists_and_baseline),
    **_named(
        "recbole",
        *("itemcoverage", "giniindex", "shannonentropy", "averagepopularity"),
        *("tailpercentage", "tailpercentage(tail=0.5)", "tailpercentage(tail=3)"),
        inputs=inputs.full_lists,
    ),
    **_named(
        "rectools",
        *("Precision", "Recall", "HitRate", "F1Beta", "MAP", "NDCG", "MRR"),
        *("Recall(denominator=ideal)", "F1Beta(beta=2)", "MAP(denominator=k)", "NDCG(best=cut)"),
        *("PAP", "PAP(short=skip)", "PartialAUC", "PartialAUC(short=skip)"),
        inputs=inputs.graded_lists,
    ),
    **_named("rectools", "MCC", inputs=inputs.lists_and_catalog),
    **_named(
        "ranx",
        *("hit_rate", "precision", "recall", "f1", "r_precision", "mrr", "map", "dcg", "ndcg"),
        *("dcg(gain=exp2)", "ndcg(gain=exp2)", "rbp(p=0.95)", "rbp(p=0.8)", "bpref"),
        inputs=inputs.graded_lists,
    ),
    **_named("torchmetrics", "RetrievalHitRate", "RetrievalPrecision", "RetrievalRecall"),
    **_named("torchmetrics", "RetrievalMRR", "RetrievalMAP", "RetrievalRPrecision"),
    **_named("torchmetrics", "RetrievalNormalizedDCG", inputs=inputs.graded_lists),
    **_named(
        "trec",
        *("P", "recall", "map_cut", "ndcg_cut", "success", "map", "gm_map", "Rprec", "bpref"),
        *("recip_rank", "ndcg", "set_P", "set_recall", "set_F", "num_ret", "num_rel"),
        "num_rel_ret",
        inputs=inputs.graded_lists,
    ),
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
    **_named("recommenders_jl", "dcg", inputs=inputs.gains_in_order),
    ("recbole", "gauc.pos_rank_sum"): Answer("recbole:gauc", inputs.labelled_scores),
}
"""(system, its own name) -> our answer."""
