"""Every door through which events come in, for the contract that all keep one set of rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streameval import Accumulator, Columns
from streameval.evaluation.partials import Counter
from streameval.events import Batch, Event
from streameval.events.errors import InvalidEventError
from tests.cli.program import json_lines, metric_options, run
from tests.columnar.given import Tensor

METRICS: Final = ("hit_rate@3", "ctr", "precision(denominator=length)@3")
SCORED: Final = (*METRICS, "log_loss")
PRICED: Final = (*METRICS, "tests.testing.declared:price")

Lists: TypeAlias = Sequence[Sequence[Any]]


class DoorInputs(NamedTuple):
    """Events as lists.

    Attributes:
        more: optional columns of `Columns`: scores, positions, per_item and users.
    """

    shown: Lists
    acts: Sequence[Any]
    more: Mapping[str, Sequence[Any]] = {}

    @property
    def metrics(self) -> tuple[str, ...]:
        if "per_item" in self.more:
            return PRICED
        return SCORED if "scores" in self.more else METRICS

    @property
    def values(self) -> dict[str, list[Any]]:
        """Name -> one list of values of the items per event, None for an event without them."""
        rows = self.more.get("per_item", ())
        names = dict.fromkeys(name for row in rows for name in row or ())
        return {name: [(row or {}).get(name) for row in rows] for name in names}

    @property
    def flat(self) -> dict[str, Any]:
        """The optional columns, with one for each name of values."""
        more = {name: column for name, column in self.more.items() if name != "per_item"}
        return more | {f"per_item.{name}": column for name, column in self.values.items()}

    def as_text(self) -> DoorInputs:
        """The same events with text ids."""
        texts = [[list(map(str, items)) for items in column] for column in self[:2]]
        return DoorInputs(texts[0], texts[1], self.more)

    def row(self, row: int) -> dict[str, Any]:
        """One event, with the names of the arguments of `Accumulator.update`."""
        more = {name.removesuffix("s"): column[row] for name, column in self.more.items()}
        plural = {
            name: more.pop(name[:-1]) for name in ("scores", "positions") if name[:-1] in more
        }
        return {
            "recommendations": self.shown[row],
            "interactions": self.acts[row],
            **plural,
            **more,
        }

    def events(self) -> list[dict[str, Any]]:
        """All events, as `row`."""
        return [self.row(row) for row in range(len(self.shown))]


class Answer(NamedTuple):
    """What a door answers: the values, or the error; and the warning."""

    values: tuple[Any, ...] | None
    told: str = ""


Door: TypeAlias = Callable[[DoorInputs, Path], Answer]


Count: TypeAlias = Callable[[Accumulator, DoorInputs], object]


def python(count: Count) -> Door:
    """A door of an Accumulator."""

    def door(given: DoorInputs, _: Path) -> Answer:
        accumulator = Accumulator(*given.metrics)
        try:
            count(accumulator, given)
        except InvalidEventError as error:
            assert accumulator.lists == 0 or count is _one_by_one
            return Answer(None, str(error))
        return _answer(accumulator)

    return door


def _answer(accumulator: Accumulator) -> Answer:
    values = tuple(accumulator.read(metric.text).value for metric in accumulator.metrics)
    return Answer(values, accumulator.advice() or "")


def _one_by_one(accumulator: Accumulator, given: DoorInputs) -> None:
    for event in given.events():
        accumulator.update(**event)


def _batch(given: DoorInputs) -> Batch:
    more: Any = given.more
    return Batch(recommendations=given.shown, interactions=given.acts, **more)


def _columns(form: Callable[[Lists], Any]) -> Count:
    return lambda accumulator, given: accumulator.update_many(
        Columns(
            recommendations=form(given.shown),
            interactions=form(given.acts),
            **{
                name: column if name in ("users", "per_item") else form(column)
                for name, column in given.more.items()
            }
            | ({"per_item": _valued(given, form)} if given.values else {}),
        )
    )


def _valued(given: DoorInputs, form: Callable[[Lists], Any]) -> dict[str, Any]:
    """Columns of values by name; those with unknown ones as lists."""
    complete = {name: None not in column for name, column in given.values.items()}
    return {
        name: form(column) if complete[name] else column for name, column in given.values.items()
    }


def _array(values: Sequence[Any]) -> Any:
    return np.array(values, object if any(isinstance(text, str) for text in values) else None)


def _ragged(lists: Lists) -> Any:
    flat = [item for items in lists for item in items]
    return _array(flat), np.cumsum([0, *map(len, lists)])


def _series(lists: Lists) -> Any:
    """A column as pandas has it: an array of objects."""
    column = np.empty(len(lists), object)
    column[:] = [list(items) for items in lists]
    return column


def _matrix(lists: Lists) -> Any:
    """A matrix, or a list of arrays if the lists differ in length."""
    if len(set(map(len, lists))) > 1:
        return [np.array(items) if items else np.zeros(0, np.int64) for items in lists]
    return np.array(lists)


def _tensors(lists: Lists) -> Any:
    if any(isinstance(item, str) for items in lists for item in items):
        return [list(items) for items in lists]
    arrays = [np.array(items, np.int64 if not items else None) for items in lists]
    return [Tensor(tensor_) for tensor_ in arrays]


def _table(given: DoorInputs) -> pa.Table:
    return pa.table(
        {"recommendations": given.shown, "interactions": given.acts, **dict(given.more)}
    )


def _partials(given: DoorInputs, _: Path) -> Answer:
    try:
        accumulators = Counter(*given.metrics).accumulators([_table(given)])
    except InvalidEventError as error:
        return Answer(None, str(error))
    return _answer(*accumulators.values())


def file(write: Callable[[DoorInputs, Path], Sequence[str | Path]]) -> Door:
    """A door of the command `evaluate`."""

    return lambda given, folder: _evaluated(write(given, folder), given)


def _evaluated(arguments: Sequence[str | Path], given: DoorInputs) -> Answer:
    done = run("evaluate", *arguments, *metric_options(given.metrics), "--format", "json")
    if done.returncode:
        return Answer(None, done.stderr)
    readings = {reading["metric"]: reading["value"] for reading in json.loads(done.stdout)}
    return Answer(tuple(readings.get(text) for text in given.metrics), done.stderr)


def _mapped(given: DoorInputs) -> list[str]:
    return [
        part for name in given.flat if name != "users" for part in ("--column", f"{name}={name}")
    ]


def _records(given: DoorInputs, folder: Path) -> list[str | Path]:
    return [json_lines(folder / "events.ndjson", given.events()), *_mapped(given)]


def _objects(given: DoorInputs, folder: Path) -> list[str | Path]:
    """Recommendations as objects, which only the general decoder reads."""
    events = [
        {**event, "recommendations": [{"id": item} for item in event["recommendations"]]}
        for event in given.events()
    ]
    return [json_lines(folder / "objects.ndjson", events), *_mapped(given), "--column", "item=id"]


def _spans(given: DoorInputs, folder: Path) -> list[str | Path]:
    events = [{**event, "ts": 1_790_000_000} for event in given.events()]
    path = json_lines(folder / "spans.ndjson", events)
    return [path, *_mapped(given), "--every", "1h", "--time", "ts", "--time-unit", "s"]


def _parquet(given: DoorInputs, folder: Path) -> list[str | Path]:
    columns = {"recommendations": given.shown, "interactions": given.acts}
    table = pa.table(columns | given.flat)
    renamed = ["user" if name == "users" else name for name in table.column_names]
    pq.write_table(table.rename_columns(renamed), folder / "events.parquet")
    return [folder / "events.parquet", *_mapped(given)]


_JOIN = """
[source]
type = "files"
paths = ["lists.ndjson", "acts.ndjson"]
[event]
time = "ts"
time_unit = "s"
[attribution]
impressions = "lists.ndjson"
window = "1m"
[[attribution.interactions]]
source = "acts.ndjson"
types = { click = 1 }
"""


def joined(given: DoorInputs, folder: Path) -> Answer:
    """Lists and interactions as two streams, an interaction a record."""
    start, lists, interactions = 1_790_000_000, [], []
    for row, event in enumerate(given.events()):
        common = {"request_id": f"r{row}", "ts": start + row}
        lists.append({**common, "recommendations": event["recommendations"]})
        interactions += [
            {**common, "item": item, "type": "click"} for item in event["interactions"]
        ]
    metrics = json.dumps(given.metrics)
    (folder / "join.toml").write_text(f"metrics = {metrics}\n{_JOIN}")
    json_lines(folder / "lists.ndjson", lists)
    json_lines(folder / "acts.ndjson", interactions)
    with chdir(folder):
        return _evaluated(["--config", folder / "join.toml"], given)


def pair(given: DoorInputs, folder: Path) -> Answer:
    """A file of recommendations and one of the truth, an item a row."""
    columns: dict[str, dict[str, list[Any]]] = {}
    for name, lists in (("recs", given.shown), ("truth", given.acts)):
        rows = [(f"u{row}", item) for row, items in enumerate(lists) for item in items]
        columns[name] = {"user": [row[0] for row in rows], "item": [row[1] for row in rows]}
    columns["recs"]["rank"] = [rank for items in given.shown for rank in range(len(items))]
    for name, table in columns.items():
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    files: list[str | Path] = [
        "--recommendations",
        folder / "recs.parquet",
        "--truth",
        folder / "truth.parquet",
    ]
    return _evaluated(files, given)


def trec(given: DoorInputs, folder: Path) -> Answer:
    """The two files of trec_eval, whose ids are text without spaces."""
    results = [
        f"u{row} Q0 {item} {rank} {-rank} x"
        for row, items in enumerate(given.shown)
        for rank, item in enumerate(items, 1)
    ]
    qrels = [f"u{row} 0 {item} 1" for row, items in enumerate(given.acts) for item in items]
    (folder / "run.txt").write_text("\n".join(results) + "\n")
    (folder / "qrels.txt").write_text("\n".join(qrels) + "\n")
    files: list[str | Path] = [
        "--recommendations",
        folder / "run.txt",
        "--truth",
        folder / "qrels.txt",
    ]
    return _evaluated(files, given)


def _text_table(
    cell: Callable[[Sequence[Any]], str],
) -> Callable[[DoorInputs, Path], list[str | Path]]:
    def write(given: DoorInputs, folder: Path) -> list[str | Path]:
        lists = {"recommendations": given.shown, "interactions": given.acts}
        lists |= {name: column for name, column in given.flat.items() if name != "users"}
        rows = ["\t".join(lists)]
        rows += ["\t".join(map(cell, row)) for row in zip(*lists.values(), strict=True)]
        (folder / "events.tsv").write_text("\n".join(rows) + "\n")
        return [folder / "events.tsv", *_mapped(given)]

    return write


COUNTS: Final[Mapping[str, Count]] = {
    "update": _one_by_one,
    "lists of lists": lambda accumulator, given: (
        accumulator.update_many(_batch(given))
        if given.more
        else accumulator.update_many(given.shown, given.acts)
    ),
    "events": lambda accumulator, given: accumulator.update_many(
        [Event(**event) for event in given.events()]
    ),
    "columns of lists": _columns(lambda lists: [list(items) for items in lists]),
    "matrices": _columns(_matrix),
    "ragged arrays": _columns(_ragged),
    "series": _columns(_series),
    "tensors": _columns(_tensors),
    "arrow": lambda accumulator, given: accumulator.update_many(_table(given)),
}
"""Every way to give events to an Accumulator."""

PYTHON: Final[Mapping[str, Door]] = {
    **{name: python(count) for name, count in COUNTS.items()},
    "partials": _partials,
}

FILES: Final[Mapping[str, Door]] = {
    "json": file(_records),
    "json objects": file(_objects),
    "json in spans": file(_spans),
    "parquet": file(_parquet),
}

TEXT: Final[Mapping[str, Door]] = {
    "json lists in a table": file(_text_table(json.dumps)),
    "separated text in a table": file(_text_table(lambda row: "|".join(map(str, row)))),
}

DOORS: Final[Mapping[str, Door]] = {**PYTHON, **FILES, **TEXT}

ITEMS: Final[Mapping[str, Door]] = {"joined streams": joined, "pair": pair, "trec": trec}
"""Doors with an item a record: lists without interactions are absent, so are repeats."""

MAKERS: Final = frozenset(
    {
        *(
            "accumulator/accumulator.py",
            "accumulator/intake.py",
            # Without its lists, for the batch after it.
            "accumulator/table.py",
        ),
        *("decoding/general.py", "decoding/row_decoder.py", "decoding/scan.py"),
        *("events/batch.py", "events/columns.py", "join/closed_lists.py"),
        "evaluation/pairs.py",
        *("statistics/exposures.py", "testing/laws.py"),
        *("evaluation/sources.py", "evaluation/score_matrix.py", "evaluation/event_rows.py"),
    }
)
"""The modules that make events."""
