"""The work of `streameval metrics`: the catalogue, as it documents itself."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from streameval.catalogue import catalogue, parameters, parse
from streameval.cli.ending import output
from streameval.cli.screen import printed
from streameval.metric import Definition, Parameter

_DIRECTIONS: Mapping[bool | None, str] = {True: "higher", False: "lower", None: "neither"}


def document(name: str | None, written_as: str) -> None:
    """Write the catalogue, or the documentation of one metric.

    Raises:
        MetricError: there is no such metric.
    """
    chosen = None if name is None else parse(name).definition
    with output():
        if written_as == "json":
            content = _entry(chosen) if chosen else list(map(_entry, catalogue().values()))
            sys.stdout.write(json.dumps(content, indent=2) + "\n")
        elif chosen:
            sys.stdout.write(_documentation(chosen))
        else:
            sys.stdout.write(printed(_table()))


def _table() -> Table:
    table = Table(header_style="bold", caption="`streameval metrics NAME` documents one of them.")
    for heading in ("metric", "what it is", "range", "better", "reads"):
        table.add_column(heading)
    for definition in catalogue().values():
        better = _DIRECTIONS[definition.higher_is_better]
        name, reads = _spelling(definition), definition.reads
        table.add_row(name, definition.summary, _range(definition), better, reads)
    return table


def _documentation(definition: Definition) -> str:
    facts = {
        "range": _range(definition),
        "better": _DIRECTIONS[definition.higher_is_better],
        "mean over": {"list": "lists", "item": "items shown", "slice": "nothing"}[definition.per],
        "reads": definition.reads,
        "source": definition.source,
    }
    lines = [_spelling(definition), "", definition.documentation, ""]
    lines += [f"{name + ':':<11} {fact}" for name, fact in facts.items()]
    lines += ["", "parameters, written like ndcg(gain=exp2)@10:"]
    lines += [f"  {_choices(each)}" for each in parameters(definition).values()] or ["  none"]
    return "\n".join(lines) + "\n"


def _entry(definition: Definition) -> dict[str, Any]:
    lowest, highest = definition.bounds
    return {
        "name": definition.name,
        "summary": definition.summary,
        "documentation": definition.documentation,
        "bounds": [lowest, None if math.isinf(highest) else highest],
        "higher_is_better": definition.higher_is_better,
        "mean_over": definition.per,
        "cut_off": "k" in definition.inputs,
        "reads": definition.reads,
        "source": definition.source,
        "parameters": {
            name: {"default": each.default, "choices": each.choices}
            for name, each in parameters(definition).items()
        },
    }


def _spelling(definition: Definition) -> str:
    return f"{definition.name}[@k]" if "k" in definition.inputs else definition.name


def _range(definition: Definition) -> str:
    lowest, highest = definition.bounds
    return f"{lowest:g} or more" if math.isinf(highest) else f"{lowest:g} to {highest:g}"


def _choices(parameter: Parameter) -> str:
    allowed = type(parameter.default).__name__
    if parameter.choices is not None:
        allowed = ", ".join(map(str, parameter.choices))
    return f"{parameter.name} = {parameter.default} ({allowed})"
