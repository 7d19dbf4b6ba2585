"""A cap by percentile is one number for all arms, and counts as that number does."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from streameval import Accumulator, ComparisonReport, Intervals, compare, evaluate, plan
from streameval.catalogue import parse
from streameval.events.errors import MetricTextError
from tests.cli.program import json_lines, run
from tests.simulation.bars import at_most

P99 = "value_per_list(cap=p99)@2"
_FIRST = 1_772_323_200
"""1 March 2026, seconds."""

Visit = tuple[str, int, float]
"""Variant, day, and value of a list."""


def event(user: int, visit: Visit) -> dict[str, Any]:
    """A list of a user, whose one sale has this value."""
    variant, day, value = visit
    return {
        "recommendations": ["a", "b"],
        "interactions": {"b": value} if value else {},
        "user": f"u{user}",
        "variant": variant,
        "ts": _FIRST + 86_400 * day + user,
    }


def quantile(values: Sequence[float], percentile: float) -> float:
    """The value at rank ceil(q n), of those other than 0."""
    ordered = sorted(value for value in values if value)
    return ordered[max(math.ceil(percentile / 100 * len(ordered)) - 1, 0)]


def report(log: Any, metric: str, **how: Any) -> ComparisonReport:
    """A comparison of files, frames or models."""
    found = compare(log, metric, **{"columns": {"time": "ts"}, "time_unit": "s", **how})
    assert isinstance(found, ComparisonReport)
    return found


def golden() -> list[Visit]:
    """Sales of 1 to 40, odd ones in control; lists that do not count have more."""
    arms = [(("b", "control")[n % 2], 1, float(n)) for n in range(1, 41)]
    nothing = [(name, 1, 0.0) for name in ("b", "control") for _ in range(5)]
    return [*arms, *nothing, ("b", 0, 900.0), ("elsewhere", 1, 800.0), ("b", 4, 700.0)]


def test_all_surfaces_say_the_number_that_all_lists_of_the_arms_give(tmp_path: Path) -> None:
    """Of 40 values p90 is the 36th; four are larger, and two lists of each arm count as 36."""
    log = json_lines(tmp_path / "log.ndjson", [event(n, x) for n, x in enumerate(golden())])
    options = ("--time", "ts", "--time-unit", "s", "--since", "2026-03-02", "--until", "2026-03-04")
    shares, metric = ("--shares", "control=1,b=1"), "value_per_list(cap=p90)"
    said = (
        "value_per_list(cap=p90): a list counts at most 36, percentile 90 of the 40 values other "
        "than 0 of all variants; 4 are larger"
    )
    done = run("compare", log, "-m", metric, *options, *shares, "--format", "json")
    result = json.loads(done.stdout)
    assert result["caps"] == [
        {
            "metric": metric,
            "parameter": "cap",
            "percentile": 90.0,
            "cap": 36.0,
            "lists": 40,
            "capped": 4,
        }
    ]
    row = result["comparisons"][0]
    means = (400 - 1 - 3) / 25, (420 - 2 - 4) / 25
    assert (row["metric"], row["control"], row["treatment"]) == (metric, *means)
    assert said in result["checks"]["notes"]
    table = run("compare", log, "-m", metric, *options, *shares)
    page = run("compare", log, "-m", metric, *options, *shares, "--format", "html")
    assert f"Note: {said}." in table.stdout.replace("\n", " ")
    assert f"{said}" in page.stdout
    days = {"since": date(2026, 3, 2), "until": date(2026, 3, 4)}
    in_python = report(log, metric, shares={"control": 1, "b": 1}, **days)
    assert f"Note: {said}." in repr(in_python)
    assert f"Note: {said}." in in_python._repr_html_()
    assert [cap.cap for cap in in_python.caps] == [36.0]
    # A plan is of all lists.
    planned = run("plan", log, "-m", metric, "--format", "json")
    assert json.loads(planned.stdout)[0]["metric"] == metric
    assert "at most 39, percentile 90 of the 43 values" in planned.stderr


def test_models_of_one_truth_share_a_cap() -> None:
    truth = {f"u{n}": {"a": float(n), "b": 2.0 * n} for n in range(1, 31)}
    models: list[dict[str, list[str]]] = [
        {user: [item, "x", "y"] for user in truth} for item in "ab"
    ]
    found = compare(*models, "value_per_list(cap=p95)", truth=truth)
    assert isinstance(found, ComparisonReport)
    (cap,) = found.caps
    assert (cap.cap, cap.lists, cap.capped) == (54.0, 60, 3)
    row = found["value_per_list(cap=p95)"]
    assert (row.control, row.treatment) == (465 / 30, (930 - 6 - 4 - 2) / 30)


def as_file(log: list[dict[str, Any]], folder: Path) -> tuple[Any, dict[str, Any]]:
    return json_lines(folder / "log.ndjson", log), {}


def as_frame(log: list[dict[str, Any]], _: Path) -> tuple[Any, dict[str, Any]]:
    gains = [list(row["interactions"].values()) for row in log]
    clicks = [list(row["interactions"]) for row in log]
    plain = {name: [row[name] for row in log] for name in ("recommendations", "user", "variant")}
    times = pa.array([row["ts"] * 1_000_000 for row in log], pa.timestamp("us"))
    frame = pa.table({**plain, "interactions": clicks, "gains": gains, "ts": times})
    return frame, {"time_unit": None, "columns": {"time": "ts", "gains": "gains"}}


def by_the_engine(log: list[dict[str, Any]], folder: Path) -> tuple[Any, dict[str, Any]]:
    """Each event comes twice, and counts once."""
    rows = [{**row, "id": row["user"]} for row in log for _ in range(2)]
    config = folder / "c.toml"
    config.write_text(
        'metrics = ["ctr"]\nlabels = ["variant"]\ndedup = "30d"\n'
        '[event]\ntime = "ts"\ntime_unit = "s"\nuser = "user"\nevent_id = "id"\n'
    )
    return json_lines(folder / "log.ndjson", rows), {"config": config, "columns": None}


_VISITS = st.lists(
    st.tuples(
        st.sampled_from(["control", "b"]),
        st.integers(0, 3),
        st.sampled_from([0.0, -3.5, 0.1, 0.7, 2.0, 1e9]) | st.floats(0.01, 50.0),
    ),
    min_size=60,
    max_size=90,
)


@pytest.mark.parametrize("form", [as_file, as_frame, by_the_engine])
@settings(max_examples=4)
@given(_VISITS, st.sampled_from([90.0, 99.5]), st.sampled_from([None, date(2026, 3, 2)]))
@example([(("b", "control")[n % 2], n % 4, 7.0) for n in range(60)], 99.0, date(2026, 3, 2))
def test_it_counts_as_its_number_bit_for_bit(
    form: Callable[[list[dict[str, Any]], Path], tuple[Any, dict[str, Any]]],
    tmp_path_factory: pytest.TempPathFactory,
    visits: list[Visit],
    percentile: float,
    since: date | None,
) -> None:
    log, how = form([event(*row) for row in enumerate(visits)], tmp_path_factory.mktemp("log"))
    values = [value for _, day, value in visits if since is None or day >= 1]
    text = f"value_per_list(cap=p{percentile:g})"
    if sum(value != 0 for value in values) < 20 or {name for name, *_ in visits} != {
        "b",
        "control",
    }:
        return
    cap = quantile(values, percentile)
    if cap <= 0:
        with pytest.raises(MetricTextError, match="a cap is above 0"):
            report(log, text, since=since, **how)
        return
    found = report(log, text, since=since, primary=[text], **how)
    number = parse(f"value_per_list(cap={cap!r})").text
    plain = report(log, number, since=since, primary=[number], **how)
    assert found.caps[0].cap == cap
    assert found.caps[0].capped == sum(value > cap for value in values)
    renamed = {**asdict(plain[number]), "metric": text}
    renamed["sentence"] = renamed["sentence"].replace(number, text)
    assert repr(asdict(found[text])) == repr(renamed)


_RAMP = [
    {"since": date(2026, 3, day), "control": 1, "b": share} for day, share in ((3, 0.5), (4, 1))
]


@pytest.mark.parametrize(
    "how",
    [{"since": date(2026, 3, 3), "by": "country"}, {"shares": _RAMP}, {"within": "country"}],
    ids=["adjusted", "ramp", "within"],
)
def test_all_that_a_comparison_reads_is_capped_alike(how: dict[str, Any], tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    log = []
    for user, day in product(range(600), range(4)):
        variant = "b" if user % 2 and (day >= 2 or "since" not in how) else "control"
        value = round(random.pareto(1.2), 2) * (random.random() < 0.5)
        log.append({**event(user, (variant, day, value)), "country": "nde"[user % 3]})
    path = str(json_lines(tmp_path / "log.ndjson", log))
    found = report(path, P99, primary=[P99], untreated_before=True, **how)
    (cap,) = found.caps
    plain = report(path, cap.counted, primary=[cap.counted], untreated_before=True, **how)
    renamed = {str(key).replace(cap.counted, P99): row for key, row in plain.items()}
    fields = ("control", "treatment", "lift_low", "lift_high", "raw_lift", "p_value", "verdict")
    for key, row in found.items():
        twin = renamed[str(key)]
        assert [getattr(row, name) for name in fields] == [getattr(twin, name) for name in fields]
    assert len(found) == len(plain)
    assert found[P99, "b"].lift_low is not None
    assert (found[P99, "b"].narrower is None) == ("within" in how)


def test_percentiles_of_one_number_are_rows_of_their_own_beside_that_number() -> None:
    rows = [event(n, (("b", "control")[n % 2], 0, 5.0 * (n % 3))) for n in range(300)]
    frame, how = as_frame(rows, Path())
    texts = [f"value_per_list(cap={cap})" for cap in ("p95", "10", "p99")]
    found = report(frame, texts[0], **how)
    several = compare(frame, texts, guardrails={"value_per_list(cap=p98)": -0.1}, **how)
    assert isinstance(several, ComparisonReport)
    named = [key.metric for key in several if not key.metric.endswith("_per_user")]
    assert set(named) == {*texts, "value_per_list(cap=p98)"}
    assert {several[text].treatment for text in named} == {found[texts[0]].treatment}
    assert several["value_per_list(cap=p98)"].guardrail == -0.1


def test_a_percentile_of_few_values_is_no_cap() -> None:
    rows = [event(n, (("b", "control")[n % 2], 0, 9.0 * (n < 19))) for n in range(300)]
    frame, how = as_frame(rows, Path())
    found = report(frame, P99, **how)
    assert (
        found[P99].treatment
        == report(frame, "value_per_list@2", **how)["value_per_list@2"].treatment
    )
    assert (
        f"Note: {P99} has no cap: 19 lists of all variants have a value other than 0, and finding "
        "one needs 20."
    ) in found.notes


def of_accumulator(*texts: str) -> Accumulator:
    counted = Accumulator(*texts, intervals=Intervals())
    counted.update(["a"], {"a": 3.0}, user="u")
    return counted


_UNKNOWN: Mapping[str, Callable[[Path], object]] = {
    "Accumulator": lambda _: of_accumulator(P99),
    "read": lambda _: of_accumulator("ctr").read(P99),
    "compare": lambda _: compare(of_accumulator("ctr"), of_accumulator("ctr"), P99),
    "plan": lambda _: plan(of_accumulator("ctr"), P99, lift=0.1),
    "evaluate": lambda _: evaluate([["a"]], [["a"]], P99),
}


@pytest.mark.parametrize("door", _UNKNOWN)
def test_it_is_refused_where_lists_are_not_known_yet(door: str, tmp_path: Path) -> None:
    with pytest.raises(MetricTextError) as error:
        _UNKNOWN[door](tmp_path)
    assert error.value.parameter == "cap"
    assert str(error.value) == (
        f"metric '{P99}': cap = 'p99' is known only when all lists are; give a number. Of variants "
        "in files or frames, `compare` and `plan` find it, and print it."
    )


@pytest.mark.parametrize(
    "percentile", ["p0", "p50", "p100", "p101", "px", "p", "p-3", "P99", "99p"]
)
def test_what_is_no_percentile_is_refused(percentile: str) -> None:
    with pytest.raises(MetricTextError, match=re.escape("above p50 and below p100, like p99.5")):
        parse(f"value_per_list(cap={percentile})")
    assert parse("dcg(cap=p99.50)").text == "dcg(cap=p99.5)"


def heavy(random: np.random.Generator, users: int) -> pa.Table:
    """Two arms without a difference; one list of five has a sale, of a Pareto tail of 1.5."""
    user = np.repeat(np.arange(users), 2)
    value = (random.random(user.size) < 0.2) * (1.0 + random.pareto(1.5, user.size))
    return pa.table(
        {
            "recommendations": [["a"]] * user.size,
            "interactions": [["a"]] * user.size,
            "gains": value[:, None].tolist(),
            "user": user,
            "variant": np.where(user % 2, "b", "control"),
        }
    )


def wide(logs: Sequence[pa.Table]) -> tuple[list[bool], list[float]]:
    """Which logs have a claim, and the widths of intervals by those without a cap."""
    claims, widths = [], []
    for log in logs:
        both = compare(log, [P99, "value_per_list@2"], columns={"gains": "gains"})
        assert isinstance(both, ComparisonReport)
        capped, plain = both[P99], both["value_per_list@2"]
        claims.append(capped.verdict in {"better", "worse"})
        ends = capped.lift_low, capped.lift_high, plain.lift_low, plain.lift_high
        low, high, plain_low, plain_high = (math.nan if end is None else end for end in ends)
        widths.append((high - low) / (plain_high - plain_low))
    return claims, widths


@pytest.mark.parametrize("runs", [6, pytest.param(400, marks=pytest.mark.nightly)])
def test_a_heavy_tail_gets_a_narrower_interval_and_no_claim(runs: int) -> None:
    random = np.random.default_rng(11)
    claims, widths = wide([heavy(random, 3_000) for _ in range(runs)])
    assert at_most("A/A claims", 0.05, claims).passed
    assert np.nanmedian(widths) < 0.8
