"""The text form of metrics, and the errors for misspelt ones."""

from __future__ import annotations

import pytest

from streameval.catalogue import catalogue, lookup, parse
from streameval.catalogue.lookup import ALIASES, aliases
from streameval.events.errors import MetricTextError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ndcg@10", "ndcg@10"),
        (" ndcg@10 ", "ndcg@10"),
        ("ndcg@010", "ndcg@10"),
        ("ndcg( gain = exp2 )@10", "ndcg(gain=exp2)@10"),
        ("ndcg(repeats=every,gain=exp2)", "ndcg(gain=exp2,repeats=every)"),
        ("recall(empty=nan)@3", "recall(empty=nan)@3"),
        ("mrr(min_gain=2)", "mrr(min_gain=2)"),
        ("mrr(min_gain=2.50)", "mrr(min_gain=2.5)"),
        ("mrr(min_gain=1e20)", "mrr(min_gain=1e+20)"),
        ("mrr(min_gain=-0.0)", "mrr"),
        ("recbole:hit@5", "recbole:hit_rate@5"),
        ("recbole:ndcg(empty=zero)@5", "recbole:ndcg@5"),
        ("recbole:ndcg(gain=linear)@5", "recbole:ndcg(gain=linear)@5"),
        ("streameval.metrics.map:map@5", "streameval.metrics.map:map@5"),
    ],
)
def test_a_text_has_one_canonical_form(text: str, canonical: str) -> None:
    assert parse(text).text == canonical
    assert parse(canonical).text == canonical
    assert parse(text) == parse(canonical)
    assert repr(parse(text)) == f"Metric({canonical!r})"


def test_an_alias_is_a_metric_of_the_catalogue_and_hides_none() -> None:
    assert ALIASES.keys().isdisjoint(catalogue())
    for alias, text in ALIASES.items():
        metric = parse(alias)
        assert metric.text == text
        assert alias in aliases(metric.name)


def test_an_alias_takes_parameters_and_a_cutoff() -> None:
    assert parse("surprisal(denominator=k)@5").text == "novelty(denominator=k,unit=share)@5"
    assert parse("surprisal(unit=bits)@5").text == "novelty@5"
    assert parse("success@10").text == "hit_rate@10"
    with pytest.raises(MetricTextError) as error:
        parse("success(gain=exp2)@10")
    assert error.value.metric == "success(gain=exp2)@10"


def test_trec_eval_writes_cutoffs_into_names() -> None:
    assert parse("trec:P_10") == parse("trec:precision@10")
    assert parse("trec:map_cut_5") == parse("trec:map@5")


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


@pytest.mark.parametrize("name", _TAKEN)
def test_a_name_of_trec_eval_is_ours(name: str) -> None:
    assert parse(f"trec:{name}").text == f"trec:{_TAKEN[name]}"


def test_texts_of_users_are_not_kept_for_ever() -> None:
    """A service may read any text that a request names."""
    for k in range(1, 5_000):
        parse(f"mrr@{k}")
    for kept in (lookup._spelling_of, lookup._built_in):
        assert kept.cache_info().currsize < 4_500
