"""Fields or columns that hold the parts of an event, and what a metric lacks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from streameval.accumulator.formulas import needed_inputs
from streameval.catalogue import parse
from streameval.catalogue.context import ATTRIBUTES
from streameval.catalogue.metric import Metric
from streameval.decoding.fields import LISTS_OF_EVENTS, EventFields, TimeUnit
from streameval.evaluation.arguments import InputError, Note, Options, column
from streameval.evaluation.files import MIND
from streameval.evaluation.item_rows import check_field
from streameval.evaluation.sources import CallInputs

RANKERS: Final = "rankers."
"""Before the name of a ranker that was not shown: rankers.challenger=rankings.challenger."""

_PER_ITEM: Final = "per_item."
"""Before the name of values beside the items: per_item.propensity=p."""

_PATHS: Final = (
    *("recommendations", "item", "score", "interactions", "interaction_item", "gain", "gains"),
    *("type", "user", "time", "event_id", "positions", "scores", "baseline", "history"),
)
"""Keys of [event] that name a field of JSON lines."""

_COLUMNS: Final = (
    *("recommendations", "interactions", "gains", "positions", "scores", "user", "time"),
    "event_id",
)
"""Keys of [event] that name a column of a table."""

_INPUTS: Final = {
    "popularity": ("the items' popularity", 'popularity = { path = "popularity.csv" }'),
    "similarity": ("the items' similarity", 'similarity = { vectors = "vectors.csv" }'),
    "examination": ("the chance that users look at each rank", "examination = [1, 0.6, 0.4]"),
}


def event_fields(
    base: EventFields, call: CallInputs, options: Options, labels: Sequence[str]
) -> EventFields:
    """The fields of an event as they were named, else as in `base`; `labels`: also segments."""
    if options.form == "mind":
        time = MIND[2] if options.every is not None and base.time is None else base.time
        base = msgspec.structs.replace(base, user=MIND[1], time=time)
    named: dict[str, Any] = {}
    inside = {
        "labels": dict(base.labels),
        "per_item": dict(base.per_item or {}),
        "rankers": dict(base.rankers or {}),
    }
    usual_fields = _COLUMNS if call.is_columns else _PATHS
    more = () if call.is_columns else (f"{RANKERS}NAME",)
    for field, name in options.columns.items() if not call.is_pair else ():
        is_ranker = field.startswith(RANKERS) and not call.is_columns
        if not (field in labels or field.startswith(_PER_ITEM) or is_ranker):
            check_field(field, [*usual_fields, *more, f"{_PER_ITEM}NAME", *labels])
        if field == "gains":
            named[field] = name
        if name is None and field in ("recommendations", "interactions"):
            raise InputError(
                "{column}: every event has {field}.", column=column(field, ""), field=field
            )
        if name is None or field in ("time", "gains"):
            continue
        if field in labels:
            inside["labels"][field] = name
        elif field.startswith(_PER_ITEM):
            inside["per_item"][field.removeprefix(_PER_ITEM)] = name
        elif is_ranker:
            inside["rankers"][field.removeprefix(RANKERS)] = name
        else:
            named[field] = name
    named |= {
        table: entries or ({} if table == "labels" else None) for table, entries in inside.items()
    }
    if options.combine is not None:
        named["combine"] = options.combine
    time = options.columns.get("time", base.time)
    # Timestamp columns of tables need no unit, and times as text are mostly ISO 8601.
    assumed: TimeUnit | None = "iso8601" if call.is_columns and time is not None else None
    unit = options.time_unit or base.time_unit or assumed
    if time is not None and unit is None:
        raise InputError(
            "the unit of event time is missing: give {time_unit} for {time}: s, ms, us or iso8601.",
            time=repr(time),
        )
    return msgspec.structs.replace(base, **named | {"time": time, "time_unit": unit})


def reads_types(metric: Metric) -> bool:
    """True if a metric reads the types of interactions."""
    return bool(metric.values.get("type")) or metric.definition.reads == "event"


def missing_field(metric: Metric, fields: EventFields, call: CallInputs) -> Note | None:
    """The field that a metric needs and no event here can have, with a remedy; else None."""
    if call.kind in ("pair", "scores") and metric.values.get("type"):
        return Note("types of interactions, which rows cannot have; give events")
    for name in metric.item_values_without(fields.per_item or ()):
        return Note(
            "{what} of each item; name its field with {column}",
            what=repr(name),
            column=column(f"{_PER_ITEM}{name}", "FIELD"),
        )
    key, what = LISTS_OF_EVENTS.get(metric.name, ("", ""))
    if not key or (getattr(fields, key) and not call.is_columns):
        return None
    if call.is_columns:
        return Note("{what}, which tables cannot have; give JSON lines", what=what)
    field = f"{RANKERS}NAME" if key == "rankers" else key
    named = column(field, "FIELD")
    return Note("{what}; name its field with {column}", what=what, column=named)


def check_fields(metrics: Iterable[Metric], fields: EventFields, call: CallInputs) -> None:
    """Refuse a metric for which no event here has a field."""
    for metric in metrics:
        if (need := missing_field(metric, fields, call)) is not None:
            text = "{metric} needs " + need.text + "."
            raise InputError(text, metric=repr(metric.text), **need.values)


def check_metrics(options: Options) -> list[Metric]:
    """The metrics that options name; refuses one that is unknown or lacks an input."""
    if not options.metrics:
        raise InputError(
            "no metric given; add some, for example 'ctr', 'ndcg@10' (`streameval metrics` lists "
            "them all), or {config=FILE}."
        )
    metrics = list(dict.fromkeys(map(parse, options.metrics)))
    for metric in metrics:
        for name in needed_inputs(metric):
            if is_provided(name, options):
                continue
            if name == "catalog":
                text = "a catalogue; give {catalog}, the number of items or a file of their ids"
                raise InputError("{metric} needs " + text + ".", metric=repr(metric.text))
            what, python, key = "", f"{name}= in Python", ""
            if name.startswith(ATTRIBUTES):
                attribute = name.removeprefix(ATTRIBUTES)
                what, key = f"the attribute {attribute!r}", f'[{name}] path = "{attribute}.csv"'
                python = f"attributes={{{attribute!r}: item -> values}}"
            elif name in _INPUTS:
                what, key = _INPUTS[name]
            if what:
                raise InputError(
                    "{needs}; give {python}, or add {key} to a configuration and give "
                    "{config=FILE}.",
                    needs=f"{metric.text!r} needs {what}",
                    python=python,
                    key=key,
                )
    return metrics


def is_provided(name: str, options: Options) -> bool:
    """True if a caller provided an input."""
    if name.startswith(ATTRIBUTES):
        return name.removeprefix(ATTRIBUTES) in options.inputs.get("attributes", ())
    return name in options.inputs
