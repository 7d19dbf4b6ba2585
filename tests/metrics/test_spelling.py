"""The text form of metrics, and the errors for misspelt ones."""

from __future__ import annotations

import pytest

from streameval.catalogue import catalogue, lookup, parse
from streameval.catalogue.lookup import ALIASES, aliases
from streameval.events.errors import (
    MetricParameterError,
    MetricSyntaxError,
    UnknownMetricError,
)


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


@pytest.mark.parametrize(
    "text",
    [
        *("", "@5", "ndcg@", "ndcg@0", "ndcg@-1", "ndcg@1.5", "ndcg@x", "ndcg@1@2", "ndcg@\u0661"),
        *("ndcg@99999999999999999999", "ndcg@" + "9" * 5_000, "ndcg 10", "nd cg@10", "5ndcg"),
        *("ndcg(", "ndcg)@5", "ndcg(gain)@5", "ndcg(gain=)@5", "ndcg(=exp2)@5", "ndcg()@5"),
        *("ndcg(gain=exp2,)@5", "ndcg(gain=exp2,gain=exp2)", ":ndcg", "a:b:c"),
    ],
)
def test_an_invalid_metric_text_is_refused(text: str) -> None:
    with pytest.raises(MetricSyntaxError, match="ndcg@10"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("ndcg(gain=exp)@5", "linear, exp2, binary"),
        ("recall(empty=none)@5", "skip, zero, nan"),
        (
            "recall(gain=exp2)@5",
            "it has among, confidence, denominator, empty",
        ),
        ("gauc(empty=skip)", "it has type, weight"),
        ("gini(statistic=median)@5", "it has by, over"),
        ("item_coverage(q=0.3)@5", "it has by, unknown"),
        ("rbp(p=1.5)@5", "from 0 to 1"),
        ("mrr(statistic=quantile,q=2)", "from 0 to 1"),
        ("mrr(statistic=half_width,confidence=1)", "from 0 to 0.999999"),
        ("ctr(rank=1.5)", "a whole number"),
        ("ctr(empty=skip)@5", "min_gain"),
        ("ndcg(q=0.9)@5", "q = 0.9 is not allowed; it has an effect only with statistic=quantile."),
        ("ndcg(statistic=median,q=0.9)@5", "only with statistic=quantile."),
        ("ndcg(confidence=0.9)@5", "only with statistic=half_width."),
        ("replay:ndcg(deviation=double)@5", "it has among, confidence"),
        ("replay:mrr(rows=1.5)", "a whole number"),
        ("replay:mrr(rows=-1)", "from 0 to"),
        ("replay:mrr(rows=99999999999)", "from 0 to"),
        ("replay_0_9:mrr(rows=1)", "it has among"),
        ("mrr(rows=1)", "it has among"),
        ("ndcg(digits=4)@5", "it has among"),
        ("mrr(min_gain=true)", "a number"),
        ("mrr(min_gain=nan)", "a number"),
        ("mrr(min_gain=1e999)", "a number"),
        ("mrr(min_gain=-1)", "from 0 to"),
        ("gini(per=user)@5", "it is one value of all lists together, not a mean over lists"),
        ("ctr(per=user)", "it is a mean over items, not a mean over lists"),
        ("distinct_items(per=user)", "it is one value of all lists together"),
        ("ips(per=user)", "its lists count by their weights, not alike"),
        ("snips(per=user)", "its lists count by their weights, not alike"),
        ("gm_map(per=user)@5", "a function of the mean over all lists"),
        ("dcg(per=user)@5", "its values have no bounds"),
        ("ctr(per=list)", "it has among"),
    ],
)
def test_a_parameter_that_a_metric_does_not_have_is_refused(text: str, allowed: str) -> None:
    with pytest.raises(MetricParameterError) as error:
        parse(text)
    assert allowed in str(error.value)
    assert error.value.metric == text


def test_the_nearest_names_are_suggested() -> None:
    with pytest.raises(UnknownMetricError, match="'recall'"):
        parse("recal@10")
    with pytest.raises(UnknownMetricError, match="hit_rate"):
        parse("recbole:hitrate@10")
    with pytest.raises(UnknownMetricError, match=r"Known: .*mrr"):
        parse("recbole:ctr@10")
    with pytest.raises(UnknownMetricError, match="Did you mean 'ndcg'"):
        parse("recbole:NDCG@10")
    with pytest.raises(UnknownMetricError, match=r"Known: recbole:auc, .*recbole:tail_percentage"):
        parse("recbole@10")
    with pytest.raises(UnknownMetricError, match="'recbole'"):
        parse("recbol:ndcg@10")
    with pytest.raises(UnknownMetricError):
        parse("no.such.module:ndcg@10")


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
    with pytest.raises(UnknownMetricError, match="'success'"):
        parse("succes@10")


def test_trec_eval_writes_cutoffs_into_names() -> None:
    assert parse("trec:P_10") == parse("trec:precision@10")
    assert parse("trec:map_cut_5") == parse("trec:map@5")
    for text in ("trec:P_0", "trec:P_99999999999"):
        with pytest.raises(MetricSyntaxError, match="whole number from 1"):
            parse(text)
    for text in ("trec:P_10@5", "trec:nothing_10", "trec:infAP", "recbole:P_10"):
        with pytest.raises(UnknownMetricError):
            parse(text)


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
    for kept in (lookup._spelled, lookup._built_in):
        assert kept.cache_info().currsize < 4_500
