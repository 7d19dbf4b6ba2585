"""Each setting decides something, is refused, or is said to change nothing, for each form."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streameval import Popularity, Similarity, evaluate
from streameval.evaluation.arguments import Options
from streameval.evaluation.evaluation import ReadingOptions
from streameval.evaluation.partials import arrow_table, partials
from streameval.evaluation.shell.evaluate import evaluate as command_of_evaluate
from streameval.events.errors import StreamevalError
from tests.cli.program import run

LISTS = pd.DataFrame({"user": ["u", "u", "v"], "item": ["a", "b", "c"], "score": [0.9, 0.5, 0.7]})
TRUTH = pd.DataFrame({"user": ["u", "v"], "item": ["b", "c"]})
EVENTS = pd.DataFrame(
    {"recommendations": ["a|b", "c"], "interactions": ["b", "c"], "user": ["u", "v"]}
)
COUNTED = pa.table({"recommendations": [["a", "b"]], "interactions": [["b"]]})
TREC = "u Q0 a 1 0.9 x\nu Q0 b 2 0.5 x\nv Q0 c 1 0.7 x\n", "u 0 b 1\nv 0 c 1\n"
SHOWN_LINES = '{"request_id":1,"recommendations":["a","b"],"time":0,"user":"u"}\n'
CLICKED_LINES = '{"request_id":1,"item":"b","time":100,"user":"u"}\n'
JOIN = """
metrics = ["ctr"]
[event]
time = "time"
time_unit = "ms"
[attribution]
impressions = "shown"
request_id = "request_id"
window = "1m"
lateness = "1h"
[[attribution.interactions]]
source = "clicks"
request_id = "request_id"
item = "item"
"""
LINES = '{"recommendations":["a","b"],"interactions":["b"]}\n'


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _parquet(path: Path, frame: pd.DataFrame) -> Path:
    frame.to_parquet(path)
    return path


def _mapping(frame: pd.DataFrame) -> dict[str, list[str]]:
    return {user: [*items] for user, items in frame.groupby("user")["item"]}


FORMS: Mapping[str, Callable[[Path], tuple[Any, ...] | dict[str, Any]]] = {
    "two CSV": lambda folder: (
        _written(folder / "shown.csv", LISTS.to_csv(index=False)),
        _written(folder / "truth.csv", TRUTH.to_csv(index=False)),
    ),
    "two parquet": lambda folder: (
        _parquet(folder / "shown.parquet", LISTS),
        _parquet(folder / "truth.parquet", TRUTH),
    ),
    "two frames": lambda _: (LISTS, TRUTH),
    "two mappings": lambda _: (_mapping(LISTS), _mapping(TRUTH)),
    "trec": lambda folder: (
        _written(folder / "results", TREC[0]),
        _written(folder / "qrels", TREC[1]),
    ),
    "matrix": lambda _: (np.array([[0.9, 0.5, 0.1], [0.1, 0.2, 0.7]]), [[1], [2]]),
    "lists": lambda _: ([["a", "b"], ["c"]], [["b"], ["c"]]),
    "CSV of events": lambda folder: (_written(folder / "events.csv", EVENTS.to_csv(index=False)),),
    "frame of events": lambda _: (EVENTS,),
    "JSON lines": lambda folder: (_written(folder / "events.ndjson", LINES),),
    "join of JSON lines": lambda folder: {
        "given": (
            [
                _written(folder / "shown.ndjson", SHOWN_LINES),
                _written(folder / "clicks.ndjson", CLICKED_LINES),
            ],
        ),
        "config": _written(folder / "join.toml", JOIN),
    },
    "join of CSV": lambda folder: {
        "given": (
            [
                _written(folder / "shown.csv", "request_id,recommendations,time,user\n1,a|b,0,u\n"),
                _written(folder / "clicks.csv", "request_id,item,time,user\n1,b,100,u\n"),
            ],
        ),
        "config": _written(folder / "join.toml", JOIN),
    },
    "join": lambda _: {
        "impressions": EVENTS.assign(request_id=[1, 2], times=[0, 0]),
        "interactions": pd.DataFrame({"request_id": [1], "item": ["b"], "times": [10**6]}),
    },
}

FIELDS = (
    "user",
    "item",
    "score",
    "rank",
    "rating",
    "time",
    "recommendations",
    "positions",
    "gains",
    "interactions",
    "event_id",
)
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "header": {"header": ["user", "item", "x"]},
    "delimiter": {"delimiter": "::"},
    "separator": {"separator": "#"},
    "separator of a column": {"separator": {"nowhere": "#"}},
    "empty separator": {"separator": ""},
    "form": {"form": "parquet"},
    "form of trec": {"form": "trec"},
    "ties": {"ties": "worst"},
    "combine": {"combine": "sum"},
    "no interactions": {"columns": {"interactions": None}},
    "time_unit": {"time_unit": "s"},
    "every": {"every": "1h"},
    "by": {"by": "nowhere"},
    "exclude": {"exclude": {"nobody": ["z"]}},
    "empty exclude": {"exclude": {}},
    "catalog": {"catalog": 9},
    "popularity": {"popularity": Popularity({"z": 1})},
    "similarity": {"similarity": Similarity(["y", "z"], vectors=[[1.0], [2.0]])},
    "attributes": {"attributes": {"genre": {"z": "x"}}},
    "examination": {"examination": [1.0, 0.5]},
    "processes": {"processes": 2},
    "users": {"users": {"nobody": "x"}},
    **{f"columns of {field}": {"columns": {field: "nowhere"}} for field in FIELDS},
}

DECIDES = {
    # Whether two scores are equal is looked at.
    *((form, "ties") for form in ("two CSV", "two parquet", "two frames", "trec", "matrix")),
    ("two parquet", "form"),
    ("trec", "form of trec"),
    ("trec", "combine"),
    *((form, "combine") for form in ("join of JSON lines", "join of CSV")),
}
"""Settings that decide what would be so without them."""


def _outcome(call: Callable[[], bytes]) -> tuple[bytes, str]:
    """The state, empty if refused, and what was said."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            state = call()
        except StreamevalError as error:
            return b"", str(error)
    return state, " ".join(str(warning.message) for warning in warned)


@pytest.mark.parametrize("form", FORMS)
def test_no_setting_is_taken_and_does_nothing(form: str, tmp_path: Path) -> None:
    inputs, metrics = FORMS[form](tmp_path), ("mrr", "recall@1")
    named: dict[str, Any] = inputs if isinstance(inputs, dict) else {"given": inputs}
    counted_as = partial(evaluate, *named.pop("given", ()), *metrics, intervals=None, **named)

    def state(**options: Any) -> bytes:
        return b"".join(counted_as(**options).accumulator().dump())

    total, said_always = _outcome(state)
    assert total
    for name, options in SETTINGS.items():
        if form in {"join", "join of CSV"} and name == "processes":
            continue  # Processes count the buckets of a join, which takes long.
        result, said = _outcome(partial(state, **options))
        (setting,) = options
        is_said = f"{setting}=" in said.replace(said_always, "")
        if result and not is_said:
            assert (result != total) or (form, name) in DECIDES, name
        elif result:
            assert result == total, name


def test_rows_of_partials_take_no_settings(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(arrow_table(partials([COUNTED], "mrr")), path)
    assert run("evaluate", path).returncode == 0
    for option, value in {"--combine": "sum", "--truth": "truth.csv", "--by": "country"}.items():
        refused = run("evaluate", path, option, value)
        assert refused.returncode == 2
        assert f"{option}: {path} has rows of streameval.partials" in refused.stderr


def test_settings_have_the_same_names_everywhere() -> None:
    """In the signature, `ReadingOptions`, `Options` and the command; each has some of its own."""
    names = {*signature(evaluate).parameters} - {"recommendations", "truth", "metrics", "unknown"}
    of_data = {"exclude", "users", "impressions", "interactions", "attribution"}
    inputs = {"catalog", "popularity", "similarity", "attributes", "examination", "user_key"}
    assert names - of_data == {*Options.__struct_fields__} - {"metrics", "inputs"} | inputs
    of_one_call = {"by", "every", "intervals"}
    assert names - of_data - of_one_call == ReadingOptions.__optional_keys__
    command = {*signature(command_of_evaluate).parameters}
    of_commands = {"paths", "metric", "format", "output", "allow_invalid", "column", "time"}
    of_commands |= {"recommendations", "truth"}
    of_python = inputs - {"catalog", "user_key"} | {"columns", "intervals"}
    of_joins = {"impressions", "interactions", "attribution"}
    assert command - of_commands == names - of_python - of_joins
