"""`streameval.compare`: runs in any form, and what was counted already."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streameval import Accumulator, Comparison, ComparisonReport, Intervals, compare, evaluate
from streameval.analyses.experiments.runs import ComparisonKey
from streameval.evaluation import files
from streameval.events.errors import StreamevalError, SuspiciousEventsWarning, UsageError
from streameval.plot import lifts
from tests.cli.program import run

METRICS = ("ndcg@5", "mrr")
USERS = 300


def models() -> tuple[dict[str, set[int]], list[dict[str, list[int]]]]:
    """A truth, and three models: the second is better, the third is like the first."""
    draw = np.random.default_rng(3)
    truth = {f"u{n}": set(draw.choice(50, 3, replace=False).tolist()) for n in range(USERS)}
    runs = [
        {
            user: [*(item for item in sorted(items) if draw.random() < share), *range(60, 64)]
            for user, items in truth.items()
        }
        for share in (0.3, 0.6, 0.3)
    ]
    return truth, runs


TRUTH, MODELS = models()


def write_models(folder: Path) -> list[Path]:
    """The files of the three models, then of the truth."""
    contents = {f"m{number}": model for number, model in enumerate(MODELS)}
    everything: dict[str, Mapping[str, Collection[int]]] = {**contents, "truth": TRUTH}
    for name, users in everything.items():
        long = [(user, item) for user, items in users.items() for item in items]
        pd.DataFrame(long, columns=["user", "item"]).to_csv(folder / f"{name}.csv", index=False)
    return [folder / f"{name}.csv" for name in (*contents, "truth")]


def test_several_runs_have_the_report_of_the_command(tmp_path: Path) -> None:
    *runs, truth = write_models(tmp_path)
    options: list[str | Path] = [part for path in runs for part in ("--recommendations", path)]
    arguments = [part for metric in METRICS for part in ("-m", metric)]
    call = ("compare", *options, "--truth", truth, *arguments, "--format", "json")
    rows = json.loads(run(*call).stdout)["comparisons"]
    by_paths = compare(*runs, *METRICS, truth=truth)
    by_dicts = compare(*MODELS, *METRICS, truth=TRUTH, names=["m0", "m1", "m2"])
    for comparisons in (by_paths, by_dicts):
        assert list(comparisons) == [(row["metric"], row["variant"], None) for row in rows]
        for row, mine in zip(rows, comparisons.values(), strict=True):
            assert (row["control"], row["treatment"]) == (mine.control, mine.treatment)
            assert (row["p_value"], row["lift_low"], row["text"]) == (
                mine.p_value,
                mine.lift_low,
                mine.text,
            )
    assert by_paths["mrr", "m1"].verdict == "better"
    assert by_paths["mrr", "m2"].verdict != "better"


def test_what_is_counted_already_gives_the_same_report() -> None:
    by_runs = compare(*MODELS[:2], *METRICS, truth=TRUTH)
    evaluations = [evaluate(model, TRUTH, *METRICS) for model in MODELS[:2]]
    by_evaluations = compare(*evaluations)
    by_accumulators = compare(*(evaluation.accumulator() for evaluation in evaluations), *METRICS)
    assert dict(by_runs) == dict(by_evaluations) == dict(by_accumulators)
    for metric in METRICS:
        pair = [evaluation[metric].value for evaluation in evaluations]
        assert [by_runs[metric].control, by_runs[metric].treatment] == pair
    alone = compare(*(evaluation.accumulator() for evaluation in evaluations), "mrr")
    assert isinstance(alone, Comparison)
    assert alone.difference == by_runs["mrr"].difference


def test_the_truth_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_models(tmp_path)
    read: list[str] = []
    original = files.blocks_of

    def noted(part: files.TablePart, *how: Any) -> Any:
        read.append(part.path)
        return original(part, *how)

    monkeypatch.setattr("streameval.evaluation.item_rows.blocks_of", noted)
    compare(*paths[:-1], "mrr", truth=paths[-1])
    assert sorted(read) == sorted(map(str, paths))


def test_files_of_trec_eval_are_known_by_their_fields(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("q1 Q0 d1 1 2.5 t\nq1 Q0 d2 2 1.5 t\n")
    (tmp_path / "new").write_text("q1 Q0 d2 1 2.5 t\nq1 Q0 d1 2 1.5 t\n")
    (tmp_path / "qrels").write_text("q1 0 d2 1\n")
    report = compare(tmp_path / "old", tmp_path / "new", "mrr", truth=tmp_path / "qrels")
    assert (report["mrr"].control, report["mrr"].treatment) == (0.5, 1.0)


def test_a_header_makes_a_table_of_what_has_as_many_fields_as_qrels(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("1\t10\t7\t0.9\n1\t11\t7\t0.5\n")
    (tmp_path / "new").write_text("1\t11\t7\t0.9\n1\t10\t7\t0.5\n")
    (tmp_path / "truth").write_text("1\t11\t10\t5\n")
    header = ["user", "item", "clicks", "rating"]
    truth = tmp_path / "truth"
    report = compare(tmp_path / "old", tmp_path / "new", "mrr", truth=truth, header=header)
    assert (report["mrr"].control, report["mrr"].treatment) == (0.5, 1.0)


def test_scores_share_a_truth_and_seen_items() -> None:
    draw = np.random.default_rng(5)
    truth = [sorted(items) for items in TRUTH.values()]
    old, new = draw.random((2, USERS, 64))
    for user, items in enumerate(truth):
        new[user, items] += 0.5
    comparisons = compare(old, new, "ndcg@5", truth=truth, exclude=[[60]] * USERS)
    assert comparisons["ndcg@5"].verdict == "better"
    assert comparisons["ndcg@5"].text.startswith("treatment is better: by at least")


def test_a_frame_of_events_is_compared_by_its_label() -> None:
    rows = [
        (items, sorted(TRUTH[user]), arm + user, arm)
        for arm, model in zip(("old", "new"), MODELS, strict=False)
        for user, items in model.items()
    ]
    frame = pd.DataFrame(rows, columns=["recommendations", "interactions", "user", "arm"])
    comparisons = compare(frame, "mrr", label="arm", baseline="old", guardrails={"ndcg@5": -0.01})
    assert comparisons["mrr"].verdict == "better"
    assert comparisons["ndcg@5"].guardrail_verdict == "kept"
    assert comparisons.trouble == ()


def test_a_segment_and_a_variant_that_is_called_like_it_have_a_row_each() -> None:
    rows = [
        (items, sorted(TRUTH[user]), arm + user, arm, "xy"[number % 2])
        for arm, model in zip(("old", "b", "b in x"), MODELS, strict=True)
        for number, (user, items) in enumerate(model.items())
    ]
    frame = pd.DataFrame(rows, columns=["recommendations", "interactions", "user", "arm", "half"])
    report = compare(frame, "mrr", label="arm", baseline="old", by="half")
    arms, segments = ("b", "b in x"), (None, "x", "y")
    keys = [("mrr", arm, segment) for segment in segments for arm in arms]
    assert [key for key in report if key.metric == "mrr"] == keys
    for key in keys:
        row = report[key]
        assert (row.metric, row.variant, row.segment) == key
    assert report["mrr", "b in x"] is report["mrr", "b in x", None]
    assert len(report) == len(report.to_frame())


def test_a_metric_alone_is_the_row_of_the_only_variant_of_all_users() -> None:
    report = compare(*MODELS[:2], "mrr", truth=TRUTH)
    assert report["mrr"] is report["mrr", "treatment"]
    assert report.get(ComparisonKey("mrr", "nobody")) is None
    several = compare(*MODELS, "mrr", truth=TRUTH, names=["old", "new", "same"])
    with pytest.raises(KeyError) as failure:
        several["mrr"]
    assert failure.value.args == (
        "'mrr': of several variants; name one: ['mrr', 'new'], ['mrr', 'same']",
    )
    with pytest.raises(KeyError) as failure:
        several["mrr", "gnu"]
    assert failure.value.args == ("mrr of gnu: not compared; there is mrr of new; mrr of same",)


def test_a_report_is_shown_framed_and_drawn() -> None:
    report = compare(*MODELS, "mrr", truth=TRUTH, names=["old", "new", "same"])
    frame = report.to_frame()
    assert frame["verdict"].tolist() == [row.text for row in report.values()]
    assert frame["variant"].tolist() == ["new", "same"]
    assert report.promise in repr(report)
    assert "new is better" in report._repr_html_()
    assert "+" in report.latex()
    assert len(lifts(report).get_yticklabels()) == 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: compare(MODELS[0], "mrr"), "give truth="),
        (lambda: compare(*MODELS[:2], "mrr"), "several runs need truth="),
        (lambda: compare(MODELS[0], "mrr", truth=TRUTH), "there is only one run"),
        (lambda: compare(*MODELS[:2], truth=TRUTH), "no metric given"),
        (lambda: compare(*MODELS[:2], "ndgc@10", truth=TRUTH), "Did you mean 'ndcg'?"),
        (lambda: compare(MODELS[0], "mrr", MODELS[1], truth=TRUTH), "comes after the metrics"),
        (lambda: compare(*MODELS[:2], "mrr", truth=TRUTH, names=["a"]), "one for each of 2 runs"),
        (lambda: compare("a/x.csv", "b/x.csv", "mrr", truth="t.csv"), "called alike"),
        (lambda: compare(Accumulator("mrr"), MODELS[0], "mrr"), "counted already"),
        (lambda: compare(Accumulator("mrr"), "mrr"), "there is one run"),
        (lambda: compare(Accumulator("mrr"), Accumulator("mrr"), "mrr"), "intervals=Intervals()"),
        (lambda: compare(Accumulator("mrr"), Accumulator("mrr")), "intervals=Intervals()"),
        (lambda: compare(counted(), counted(), truth=TRUTH), "counted already"),
        (lambda: compare(counted(), counted(), by="country"), "by= is for events"),
        (lambda: compare(counted(), counted(), "mrr", confidence=0.9), "of their intervals"),
        (lambda: compare(counted(), counted(), against="mrr"), "and one metric"),
        (lambda: compare(*MODELS[:2], "mrr", truth=TRUTH, label="arm"), "label= is for events"),
    ],
)
def test_a_mistake_is_one_sentence_with_a_remedy(call: Callable[[], object], said: str) -> None:
    with pytest.raises(StreamevalError) as raised:
        call()
    assert said in str(raised.value)
    assert "--" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "sure"}, "unknown method='sure'. Choose 'anytime' or 'fixed'."),
        (
            {"guardrails": {"mrr": "1 %"}},
            'guardrails.mrr: found "1 %"; give a number: 1 % is 0.01.',
        ),
        ({"pre_period": "month"}, 'pre_period: found "month"; give a whole number.'),
        ({"ties": "later"}, "ties=: found \"later\"; allowed are 'arrival'"),
        ({"form": "xls"}, "form=: found \"xls\"; allowed are 'table'"),
        ({"processes": 0}, "processes=: found 0; give a whole number of at least 1."),
        ({"columns": ["item"]}, 'columns=: found ["item"]; give a table.'),
        ({"config": 3}, "config=: found 3; give text in quotes."),
        ({"primary": 3}, "primary=: found 3; give a metric, or a list of metrics."),
        ({"guardrails": 3}, "guardrails=: found 3; give limits of lifts by metric."),
        ({"by": ["age"]}, "by=: found ['age']; give the name of a field."),
        ({"looks": 0}, "looks=: found 0; give a whole number of at least 1."),
        ({"alpha": 0.1}, "alpha= is not an argument; known: against, attributes, baseline, by, "),
        (
            {"metrics": ["mrr"]},
            "metrics= is not an argument; give metrics by position, one or a list.",
        ),
    ],
)
def test_an_argument_that_means_nothing_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(StreamevalError) as raised:
        compare(*MODELS[:2], "mrr", truth=TRUTH, **options)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("k", 'k= is not an argument; a cut-off is part of a metric: "ndcg@10".'),
        ("metrics", "metrics= is not an argument; give metrics by position, one or a list."),
        ("tie", "tie= is not an argument; known: attributes, attribution, by, catalog, "),
    ],
)
def test_evaluate_refuses_a_keyword_that_it_does_not_have(name: str, said: str) -> None:
    unknown: dict[str, Any] = {name: 10}
    with pytest.raises(UsageError) as raised:
        evaluate(MODELS[0], TRUTH, "ndcg", **unknown)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("name", "given"), [("examination", np.array([1.0, 0.5])), ("catalog", np.arange(100))]
)
def test_inputs_may_be_arrays_as_those_of_evaluate(name: str, given: Any) -> None:
    inputs: dict[str, Any] = {name: given}
    with pytest.warns(SuspiciousEventsWarning, match=f"{name}= changes nothing: no metric here"):
        assert compare(*MODELS[:2], "mrr", truth=TRUTH, **inputs)["mrr"].lift is not None


@pytest.mark.parametrize("name", ["confidence", "precision"])
def test_a_number_of_zero_is_not_taken_for_the_usual_one(name: str) -> None:
    zero: dict[str, Any] = {name: 0.0}
    with pytest.raises(StreamevalError, match=name):
        compare(*MODELS[:2], "mrr", truth=TRUTH, **zero)


def counted() -> Accumulator:
    return Accumulator("mrr", intervals=Intervals())


def test_counts_without_a_list_have_no_verdict() -> None:
    report = compare(counted(), counted())
    assert isinstance(report, ComparisonReport)
    assert report["mrr"].verdict == "too few users"


@pytest.mark.parametrize("option", [{"exclude": {"u1": ["milk"]}}, {"looks": 3}])
@pytest.mark.parametrize("metrics", [(), ("mrr",)])
def test_counted_runs_refuse_what_can_no_longer_apply(
    option: dict[str, Any], metrics: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as raised:
        compare(counted(), counted(), *metrics, **option)
    assert str(raised.value) == (
        f"{next(iter(option))}= is for events or recommendations; these runs are counted already."
    )
