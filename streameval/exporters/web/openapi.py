"""The OpenAPI 3.1 description of the JSON API, generated from its response types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from streameval.engine.analysis import installed
from streameval.exporters.page.history import History
from streameval.exporters.web import answers

_ABOUT: Final = (
    "Online values of a recommender's metrics, and the health of the pipeline. All requests use "
    "GET; numbers are exact doubles."
)
PARAMETER_TEXTS: Final[Mapping[str, Mapping[str, str]]] = {
    "history": {
        "metric": "Text of a metric as in /api/v1/metrics.",
        "window": (
            "A window, lifetime, or pane (the default): single panes (empty if the metric is not a "
            "mean, or there are no windows)."
        ),
        "segment": "Name of a segment; without it, series are by labels only.",
    }
}
"""Path -> its parameters, the first of which is required; other paths take none."""

_UNKNOWN: Final = "Unknown metric, window or segment; the text lists the known ones."
_REF: Final = "#/components/schemas/{name}"
_REFUSALS: Final = {
    "400": "Unknown parameter; the text lists the known ones.",
    "401": "Users are configured, and the request has not the right password of one.",
    "413": "The request has a body.",
    "421": "No users are configured, and the request is for a host of another name.",
    "503": (
        "No data has been read yet, the daemon is stuck, or too many passwords wait to be checked; "
        "the text has the reason."
    ),
}
"""Code -> why any path answers it."""

_STRING: Final = {"schema": {"type": "string"}}
_ATTRIBUTE: Final = re.compile(r"(?P<name>\w+): (?P<text>.*(?:\n {4,}.*)*)")


@cache
def description() -> bytes:
    """The whole document as JSON."""
    answered: dict[str, tuple[str, Any]] = {
        "metrics": ("Every value, and the pipeline's health.", answers.metrics_answer()),
        "history": (
            "One metric over time, computed from kept panes, or else observed since the start.",
            History,
        ),
        **{
            analysis.name: (analysis.about, analysis.answers)
            for analysis in installed()
            if analysis.is_alone
        },
        "catalogue": ("The definitions of all metrics of the snapshot.", answers.Catalogue),
    }
    kinds = [kind for _, kind in answered.values()]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    _describe(components, kinds)
    paths = {
        f"/api/v1/{name}": {"get": _operation(name, about, schema)}
        for (name, (about, _)), schema in zip(answered.items(), schemas, strict=True)
    }
    paths["/api/v1/openapi.json"] = {
        "get": _operation("openapi.json", "This description.", {"type": "object"})
    }
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "streameval", "version": "1", "description": _ABOUT},
            "servers": [{"url": "../.."}],
            "paths": paths,
            # A password is needed only where users are configured.
            "security": [{}, {"password": []}],
            "components": {
                "schemas": components,
                "securitySchemes": {"password": {"type": "http", "scheme": "basic"}},
            },
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


def _operation(name: str, summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The GET of one path, whose answer has this schema."""
    texts = dict(_REFUSALS) | ({"404": _UNKNOWN} if name in PARAMETER_TEXTS else {})
    responses: dict[str, Any] = {
        "200": {
            "description": "As of the last snapshot.",
            "headers": {"ETag": _STRING | {"description": "Send it back as If-None-Match."}},
            "content": {"application/json": {"schema": schema}},
        },
        "304": {"description": "Not modified since the sent ETag."},
    } | {
        code: {"description": text, "content": {"text/plain": _STRING}}
        for code, text in sorted(texts.items())
    }
    challenge = _STRING | {"description": "Basic, with the realm."}
    responses["401"]["headers"] = {"WWW-Authenticate": challenge}
    parameters = [
        {"name": parameter, "in": "query", "required": not index, "description": text} | _STRING
        for index, (parameter, text) in enumerate(PARAMETER_TEXTS.get(name, {}).items())
    ]
    return {"summary": summary, "parameters": parameters, "responses": responses}


def _describe(components: dict[str, Any], kinds: Iterable[Any]) -> None:
    """Add the texts of all objects; all properties are required, and there are no others."""
    for struct in _structs(msgspec.inspect.multi_type_info(kinds)):
        schema, meanings = components[struct.__name__], attribute_texts(struct)
        schema["description"] = inspect.cleandoc(struct.__doc__ or "").partition("\n")[0]
        for name, property_schema in schema["properties"].items():
            property_schema.pop("default", None)
            # Those of another package may have none.
            if text := re.sub(r"\bNone\b", "null", meanings.get(name, "")).removesuffix("."):
                property_schema["description"] = f"{text[:1].upper()}{text[1:]}."
        schema |= {"required": [*schema["properties"]], "additionalProperties": False}


def _structs(kinds: Iterable[Any]) -> set[type]:
    """The types of objects inside types, themselves included."""
    structs, waiting = set[type](), [*kinds]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, tuple):
            waiting += kind
        elif isinstance(kind, msgspec.inspect.StructType):
            if kind.cls not in structs:
                structs.add(kind.cls)
                waiting += [field.type for field in kind.fields]
        elif isinstance(kind, msgspec.inspect.Type):
            waiting += msgspec.structs.astuple(kind)
    return structs
