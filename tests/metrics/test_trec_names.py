"""Every name that `trec_eval -m all_trec` prints is taken, or refused as one that is not there."""

from __future__ import annotations

import pytest

from streameval.catalogue import parse
from streameval.errors import AbsentMetricError
from tests.effort import every_case

_TAKEN = {
    "num_ret": "retrieved",
    "num_rel": "relevant",
    "num_rel_ret": "hits",
    "map": "map",
    "gm_map": "gm_map",
    "Rprec": "r_precision",
    "bpref": "bpref",
    "recip_rank": "mrr",
    "ndcg": "ndcg",
    "set_P": "precision",
    "set_recall": "recall",
    "set_F": "f1",
    "success_1": "hit_rate@1",
    "recall_100": "recall@100",
    "P_5": "precision@5",
    "ndcg_cut_10": "ndcg@10",
    "map_cut_10": "map@10",
    "P_1000": "precision@1000",
    "iprec_at_recall_0.00": "iprec_at_recall(recall=0)",
    "iprec_at_recall_0.10": "iprec_at_recall(recall=0.1)",
    "iprec_at_recall_0.50": "iprec_at_recall",
    "iprec_at_recall_1.00": "iprec_at_recall(recall=1)",
}
_ABSENT = (
    *("runid", "num_q", "relstring_10", "infAP", "gm_bpref", "Rprec_mult_0.20", "11pt_avg"),
    *("utility_1.00,-1.00,0.00,0.00", "binG", "G", "ndcg_rel", "Rndcg", "relative_P_5"),
    *("set_relative_P", "set_map", "num_nonrel_judged_ret", "prefs_simp", "map_avgjg", "P_avgjg_5"),
)


@every_case("name", _TAKEN)
def test_a_name_of_trec_eval_is_ours(name: str) -> None:
    assert parse(f"trec:{name}").text == f"trec:{_TAKEN[name]}"


@every_case("name", _ABSENT)
def test_what_trec_eval_has_and_we_have_not_is_said_to_be_absent(name: str) -> None:
    with pytest.raises(AbsentMetricError, match=r"of trec_eval .* is not among the metrics here"):
        parse(f"trec:{name}")
