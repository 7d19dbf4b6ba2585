"""What the field calls metrics, and trec_eval's own numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from streameval import Accumulator
from streameval.catalogue import catalogue, parse
from streameval.catalogue.lookup import ALIASES, aliases
from streameval.errors import MetricSyntaxError, UnknownMetricError

TREC = Path(__file__).parents[3] / "shared" / "datasets" / "trec_eval_test"


def test_an_alias_is_a_metric_of_the_catalogue_and_hides_none() -> None:
    assert ALIASES.keys().isdisjoint(catalogue())
    for alias, text in ALIASES.items():
        metric = parse(alias)
        assert metric.text == text
        assert alias in aliases(metric.name)


def test_an_alias_takes_parameters_and_a_cutoff() -> None:
    assert parse("surprisal(cold=zero)@5").text == "novelty(cold=zero,unit=share)@5"
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
    for text in ("trec:P_10@5", "trec:nothing_10", "recbole:P_10"):
        with pytest.raises(UnknownMetricError):
            parse(text)


@pytest.mark.skipif(not TREC.is_dir(), reason="the data sets are not beside us")
def test_every_line_of_trec_evals_own_test_is_given_to_the_printed_digits() -> None:
    lines = _lines("expected_all.txt.gz")
    expected = {_text(name): value for name, _, value in lines if name not in ("runid", "num_q")}
    accumulator = Accumulator(*expected)
    judged: dict[str, dict[str, float]] = {}
    for topic, _, item, gain in _lines("qrels.test.gz"):
        judged.setdefault(topic, {})[item] = float(gain)
    found: dict[str, list[tuple[float, str]]] = {}
    for topic, _, item, _, score, _ in _lines("results.test.gz"):
        found.setdefault(topic, []).append((float(score), item))
    for topic, scored in found.items():
        accumulator.update([item for _, item in sorted(scored, reverse=True)], judged[topic])
    assert len(expected) == 28
    for text, value in expected.items():
        digits = len(value.partition(".")[2])
        assert f"{accumulator.read(text).value:.{digits}f}" == value, text


def _text(name: str) -> str:
    if name.startswith("iprec_at_recall_"):
        return f"trec:iprec_at_recall(recall={name.removeprefix('iprec_at_recall_')})"
    return f"trec:{name}"


def _lines(name: str) -> list[list[str]]:
    with gzip.open(TREC / name, "rt", encoding="utf-8") as text:
        return [line.split() for line in text]
