"""A dashboard's questions, asked as Grafana asks them: variables first, then every expression."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tests.prometheus.remembering import Remembering

_QUERY = re.compile(r"label_values\((?:(?P<selector>.*), ?)?(?P<label>[\w${}]+)\)")
_RANGE = 2 * 3600
_VARIABLE = re.compile(r"\$(?:{(\w+)}|(\w+))")


class Question(NamedTuple):
    """One expression of one panel, as written.

    Attributes:
        panel: its title.
        expression: with variables.
        instant: whether only the last value is asked for.
    """

    panel: str
    expression: str
    instant: bool = False

    @property
    def variables(self) -> set[str]:
        """Names of those that it needs."""
        return {braced or bare for braced, bare in _VARIABLE.findall(self.expression)}


def read(path: Path) -> dict[str, Any]:
    """A dashboard's file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def questions(dashboard: Mapping[str, Any]) -> list[Question]:
    """All that its panels and its marks ask."""
    panels = [
        Question(panel["title"], target["expr"], target.get("instant", False))
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    ]
    marks = [Question(each["name"], each["expr"]) for each in dashboard["annotations"]["list"]]
    return [*panels, *marks]


def values(dashboard: Mapping[str, Any], asked: Remembering) -> dict[str, list[str]]:
    """What each variable can be, asked in their order, for each may need those before it."""
    found: dict[str, list[str]] = {}
    for variable in dashboard["templating"]["list"]:
        name, kind = variable["name"], variable["type"]
        if kind == "query":
            found[name] = _of_query(variable, found, asked)
        elif kind != "datasource":
            found[name] = [variable["current"]["value"]]
    return found


def failures(
    question: Question, known: Mapping[str, list[str]], asked: Remembering
) -> Iterator[str]:
    """The expression, for each choice of variables without a finite answer."""
    names = sorted(question.variables)
    for choice in product(*(known[name] for name in names)):
        expression = filled(question.expression, dict(zip(names, choice, strict=True)))
        if not _is_finite(asked, question, expression):
            yield expression


def filled(text: str, chosen: Mapping[str, str]) -> str:
    """The text with its variables replaced."""
    return _VARIABLE.sub(lambda found: chosen[found[1] or found[2]], text)


def _of_query(
    variable: Mapping[str, Any], known: Mapping[str, list[str]], asked: Remembering
) -> list[str]:
    if "allValue" in variable:
        return [variable["allValue"]]
    query = _QUERY.fullmatch(variable["query"]["query"])
    assert query is not None, variable
    first = {name: those[0] for name, those in known.items()}
    selector = filled(query["selector"], first)
    label = filled(query["label"], first)
    times = {"start": str(asked.end - _RANGE), "end": str(asked.moment)}
    listed = asked.server.data(f"label/{label}/values", **{"match[]": selector}, **times)
    pattern = re.compile((variable["regex"] or "/(.*)/").strip("/"))
    offered = list(dict.fromkeys(match[1] for each in listed if (match := pattern.search(each))))
    current = variable.get("current", {}).get("value")
    return [current] if current in offered else offered


def _is_finite(asked: Remembering, question: Question, expression: str) -> bool:
    if question.instant:
        answer = asked.server.data("query", query=expression, time=str(asked.moment))
        numbers = [float(series["value"][1]) for series in answer["result"]]
    else:
        times = {"start": str(asked.end - _RANGE), "end": str(asked.moment), "step": "120"}
        answer = asked.server.data("query_range", query=expression, **times)
        numbers = [float(number) for series in answer["result"] for _, number in series["values"]]
    return bool(numbers) and all(map(math.isfinite, numbers))
