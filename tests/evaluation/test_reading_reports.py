"""What people reported about reading files, exclusion, ids and settings, here and elsewhere.

Right values by hand, of inputs of our own; rows that always held are here where no law has them.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streameval import Popularity, evaluate
from streameval.events.errors import StreamevalError, SuspiciousEventsWarning

NAMES = ["user", "item", "rating"]
GAPS = "user,item,rank\n1,a,1\n1,b,2\n1,c,7\n"
UNLIKE = "".join(
    json.dumps({"recommendations": [n, n + 1], "interactions": [f"item_{n}"]}) + "\n"
    for n in range(50)
)


class Report(NamedTuple):
    """One report: what is given, and what is right.

    Attributes:
        shown: recommendations by user, or the text of the file of this name.
        truth: likewise; None for files of events.
        right: the value; or the error that names what is wrong.
        warned: what is said.
    """

    about: str
    shown: Any
    truth: Any
    right: float | str
    options: Mapping[str, Any] = {}
    warned: str | None = None
    metric: str = "mrr"


REPORTS = [
    Report(
        "quoted fields below --header",
        {"1": ["Plain"], "2": ["Toy"], "3": ["Toy"]},
        ("truth.csv", '1,Plain,5\n2,"Toy",5\n3,"Toy",4\n'),
        1.0,
        {"header": NAMES},
    ),
    Report(
        "commas in the fields of a file of semicolons without names",
        ("shown.csv", "1;a,b;x\n1;c;y\n"),
        {"1": ["a,b"]},
        1.0,
        {"header": ["user", "item", "title"], "columns": {"score": None}},
    ),
    Report(
        "a quote that begins a cell of a TSV swallows no row",
        {"1": ['"Foo'], "2": ["b"], "3": ['c"'], "4": ["d"]},
        ("truth.tsv", 'user\titem\n1\t"Foo\n2\tb\n3\tc"\n4\td\n'),
        1.0,
    ),
    Report(
        "quotes of a title in a TSV",
        {"1": ['"Great Performances" Cats (1998)']},
        ("truth.tsv", 'user\titem\n1\t"Great Performances" Cats (1998)\n'),
        1.0,
    ),
    Report(
        "quotes of a title in a CSV",
        {"1": ["a"]},
        ("truth.csv", 'user,item\n1,a\n2,"Great" Cats\n'),
        "truth.csv: line 3: text follows a quoted field: '\"Great\" Cats';",
    ),
    Report(
        "a quote without an end",
        {"1": ["a"]},
        ("truth.csv", 'user,item\n1,a\n2,"Great\n3,b\n'),
        "truth.csv: line 3: a quote is not closed: '\"Great';",
    ),
    Report(
        "a tab too many",
        {"1": ["a"]},
        ("truth.tsv", "user\titem\n1\ta\tb\n"),
        r"has 3 fields, not 2: '1\ta\tb'; remove '\t' from fields",
    ),
    Report("ranks that skip", ("shown.csv", GAPS), {"1": ["c"]}, 1 / 7, warned="ranks that skip"),
    Report(
        "an exclusion of another user",
        ("shown.csv", GAPS),
        {"1": ["c"]},
        1 / 7,
        {"exclude": {"2": ["a"]}},
        "exclude= leaves nothing out, as no user of it is in the recommendations or the truth: one "
        "starts with '2', the other with '1'",
    ),
    Report(
        "an exclusion of one's own first item",
        ("shown.csv", GAPS),
        {"1": ["c"]},
        1 / 6,
        {"exclude": {"1": ["a"]}},
        "ranks that skip",
    ),
    Report(
        "an exclusion of a whole list",
        {1: [7], 2: [5]},
        {2: [5]},
        0.5,
        {"exclude": {1: [7]}},
        "without truth: 1",
        "hit_rate",
    ),
    Report(
        "an exclusion of unknown items",
        {1: ["a", "b"], 2: ["b"]},
        {1: ["b"], 2: ["b"]},
        0.75,
        {"exclude": {1: ["sku-a"], 2: ["sku-b"]}},
        "exclude= leaves nothing out, as no item of it",
    ),
    Report(
        "an exclusion of what the recommender left out",
        {1: ["b"]},
        {1: ["b", "a"]},
        1.0,
        {"exclude": {1: ["a"]}},
    ),
    Report(
        "integers in lists and words in interactions",
        ("events.ndjson", UNLIKE),
        None,
        0.0,
        warned="50 lists with interactions and no hit: .* only integers, .* only words",
        metric="ctr",
    ),
    Report(
        "gains of a field that no record has",
        ("events.ndjson", '{"recommendations":["a"],"interactions":["a"],"gains":[5]}\n'),
        None,
        1.0,
        {"columns": {"gains": "paid"}},
        "columns={'gains': 'paid'} is not read: no event or row has it",
        "value_per_list",
    ),
    Report(
        "a popularity of other items",
        {n: ["a"] for n in range(20)},
        {n: ["a"] for n in range(20)},
        2.0,
        {"popularity": Popularity({"sku-a": 1, "sku-b": 1}, 4)},
        "none of 20 items shown has a popularity",
        "novelty",
    ),
    Report(
        "a header that no file needs",
        ("shown.csv", "user,item\n1,b\n1,a\n"),
        {"1": ["a"]},
        0.5,
        {"header": ["user", "sku"]},
        "header='user,sku' changes nothing: each file has names in its first line, or a form",
    ),
    Report(
        "spaces after commas",
        ("shown.csv", "user,item\n1, a\n"),
        {"1": ["a"]},
        0.0,
        warned="no item is in both files: one starts with ' a', the other with 'a'",
    ),
    Report("a truth that repeats", {1: ["a", "a", "z"]}, {1: ["a", "a"]}, 1.0, warned="repeat"),
]


def _input_of(what: Any, folder: Path) -> Any:
    if not isinstance(what, tuple):
        return what
    (folder / what[0]).write_text(what[1])
    return folder / what[0]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.about)
def test_a_report_has_its_right_answer(report: Report, tmp_path: Path) -> None:
    inputs = [_input_of(report.shown, tmp_path)]
    inputs += [] if report.truth is None else [_input_of(report.truth, tmp_path)]
    if isinstance(report.right, str):
        with pytest.raises(StreamevalError) as raised:
            evaluate(*inputs, report.metric, **report.options)
        assert report.right in str(raised.value)
        return
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", SuspiciousEventsWarning)
        evaluation = evaluate(*inputs, report.metric, **report.options)
    assert evaluation[report.metric].value == report.right
    messages = [str(warning.message) for warning in warned]
    assert (
        any(re.search(report.warned, text) for text in messages) if report.warned else not messages
    )
