"""The OpenAPI 3.1 description of the JSON API, generated from its response types."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any, Final

import msgspec

from streameval.analyses.changes.report import ChangeDay, Rollout
from streameval.analyses.experiments.checks import Checks, Split
from streameval.analyses.experiments.course import Day, SpanLift
from streameval.analyses.experiments.verdicts import Compared
from streameval.analyses.gaps.gap import Gap, GapValue
from streameval.engine.snapshot import SeriesFamily, StreamHealth, WebConfigHealth
from streameval.exporters.page.definition import MetricDefinition
from streameval.exporters.page.history import History, HistorySeries
from streameval.exporters.page.state import State
from streameval.exporters.view import Variants
from streameval.exporters.web import answers
from streameval.statistics.intervals import Interval

_ABOUT: Final = (
    "Online values of a recommender's metrics, and the health of the pipeline. All requests use "
    "GET; numbers are exact doubles."
)
_OBJECTS: Final = (
    *(answers.Metrics, answers.ReadingAnswer, Compared, answers.ExperimentAnswer),
    *(
        answers.HealthAnswer,
        answers.PartitionAnswer,
        answers.Checkpoint,
        answers.Join,
        MetricDefinition,
    ),
    *(answers.Catalogue, History, HistorySeries, State, Variants),
    *(answers.GapReading, Gap, GapValue),
    *(answers.ChangesAnswer, answers.ChangeAnswer, ChangeDay, Rollout),
    *(Checks, Day, Interval, SeriesFamily, SpanLift, Split, StreamHealth, WebConfigHealth),
)
"""All types of objects in responses."""

_PATHS: Final = {
    "metrics": ("Every value, and the pipeline's health.", answers.Metrics),
    "history": (
        "One metric over time, computed from kept panes, or else observed since the start.",
        History,
    ),
    "changes": ("Did it get worse, and since when? The watched series.", answers.ChangesAnswer),
    "catalogue": ("The definitions of all metrics of the snapshot.", answers.Catalogue),
    "openapi.json": ("This description.", None),
}
_PARAMETERS: Final = {
    "metric": "Text of a metric as in /api/v1/metrics.",
    "window": (
        "A window, lifetime, or pane (the default): single panes (empty if the metric is not a "
        "mean, or there are no windows)."
    ),
    "segment": "Name of a segment; without it, series are by labels only.",
}
"""Parameters of the history; the first is required."""

_UNKNOWN: Final = "Unknown metric, window or segment; the text lists the known ones."
_NO_DATA: Final = "No data has been read yet, or the daemon is stuck; the text has the reason."
_STRING: Final = {"schema": {"type": "string"}}
_ATTRIBUTE: Final = re.compile(r"(?P<name>\w+): (?P<text>.*(?:\n {4,}.*)*)")


@cache
def description() -> bytes:
    """The whole document as JSON."""
    paths = {f"/api/v1/{name}": {"get": _operation(name)} for name in _PATHS}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "streameval", "version": "1", "description": _ABOUT},
            "servers": [{"url": "../.."}],
            "paths": paths,
            "components": {"schemas": _schemas()},
        }
    )


def attribute_texts(struct: type) -> dict[str, str]:
    """Attribute -> its text in the docstring of a class, on one line."""
    texts = {}
    for parent in reversed(struct.__mro__):
        text = inspect.cleandoc(parent.__doc__ or "").partition("Attributes:\n")[2]
        text = text.partition("\n\n")[0]
        for attribute in _ATTRIBUTE.finditer(inspect.cleandoc(text)):
            texts[attribute["name"]] = " ".join(attribute["text"].split())
    return texts


def _operation(name: str) -> dict[str, Any]:
    """The GET of one path."""
    summary, answer = _PATHS[name]
    schema = {"$ref": _ref(answer.__name__)} if answer is not None else {"type": "object"}
    operation: dict[str, Any] = {
        "200": {
            "description": "As of the last snapshot.",
            "headers": {"ETag": _STRING | {"description": "Send it back as If-None-Match."}},
            "content": {"application/json": {"schema": schema}},
        },
        "304": {"description": "Not modified since the sent ETag."},
    }
    parameters: list[dict[str, Any]] = []
    if name == "history":
        operation["404"] = {"description": _UNKNOWN, "content": {"text/plain": _STRING}}
        parameters = [
            {"name": parameter, "in": "query", "required": not place, "description": text} | _STRING
            for place, (parameter, text) in enumerate(_PARAMETERS.items())
        ]
    if answer is not None:
        operation["503"] = {"description": _NO_DATA, "content": {"text/plain": _STRING}}
    return {"summary": summary, "parameters": parameters, "responses": operation}


def _schemas() -> dict[str, Any]:
    """The schema of each object; all properties are required, and there are no others."""
    _, components = msgspec.json.schema_components(_OBJECTS, ref_template=_ref("{name}"))
    for struct in _OBJECTS:
        schema, meanings = components[struct.__name__], attribute_texts(struct)
        schema["description"] = inspect.cleandoc(struct.__doc__ or "").partition("\n")[0]
        for name, property_schema in schema["properties"].items():
            property_schema.pop("default", None)
            text = re.sub(r"\bNone\b", "null", meanings[name]).removesuffix(".")
            property_schema["description"] = f"{text[:1].upper()}{text[1:]}."
        schema |= {"required": [*schema["properties"]], "additionalProperties": False}
    return components


def _ref(name: str) -> str:
    return f"#/components/schemas/{name}"
