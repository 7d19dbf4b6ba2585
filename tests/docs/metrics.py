"""docs/reference/metrics.md and the page of each metric, from their declarations."""

from __future__ import annotations

import math
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from streameval import Accumulator, Event
from streameval.catalogue import catalogue, parameters, parse
from streameval.catalogue.conventions import CONVENTIONS, RULES
from streameval.catalogue.grammar import format_value
from streameval.catalogue.items import Popularity, Similarity
from streameval.catalogue.lookup import aliases
from streameval.catalogue.metric import Definition
from streameval.catalogue.reading import UndefinedReading
from streameval.catalogue.signature import Parameter
from streameval.cli.metrics import SHARED_PARAMETERS, STATISTICS
from streameval.exporters.view import unit_of_count
from tests.docs.tables import chosen
from tests.house.checkout import ROOT

INDEX = ROOT / "docs" / "reference" / "metrics.md"
FOLDER = ROOT / "docs" / "reference" / "metrics"
_FOLDER = Path(__file__).parent
_DATA = tomllib.loads((_FOLDER / "metrics.toml").read_text(encoding="utf-8"))
_FORMULAS = tomllib.loads((_FOLDER / "formulas.toml").read_text(encoding="utf-8"))
_BETTER: Mapping[bool | None, str] = {True: "higher", False: "lower", None: "neither"}
_KINDS = {str: "a word", int: "a whole number", float: "a number", bool: "true or false"}


def pages() -> dict[Path, str]:
    """Path -> text of the page of every metric and of their index."""
    template = _template()
    made = {
        FOLDER / f"{name}.md": template.page(_facts(definition))
        for name, definition in catalogue().items()
    }
    index = INDEX.read_text(encoding="utf-8")
    sections = {
        "Which one do I want?": template.questions(),
        "Conventions": template.conventions(),
        "The catalogue": template.catalogue(),
        "What metrics read": template.statistics(),
        "Shared parameters": template.shared_parameters(_groups()),
        "The worked example": template.example(),
    }
    for heading, text in sections.items():
        before, title, rest = index.partition(f"\n## {heading}\n")
        _, following, after = rest.partition("\n## ")
        index = f"{before}{title}\n{text.rstrip()}\n{following}{after}"
    return {**made, INDEX: index}


def _template() -> Any:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    filters = {"written": format_value, "allowed": _allowed, "cell": _cell}
    environment.filters |= {**filters, "dedent": textwrap.dedent}
    known = {"data": _DATA, "CATALOGUE": catalogue(), "CONVENTIONS": CONVENTIONS}
    environment.globals |= {**known, "RULES": RULES, "STATISTICS": STATISTICS}
    return environment.get_template("metrics.md.jinja").module


def _facts(definition: Definition) -> dict[str, Any]:
    """What the page of a metric says."""
    own = [
        parameter
        for name, parameter in parameters(definition).items()
        if name in definition.parameters
    ]
    questions = [item for item in _DATA["questions"].items() if definition.name in item[1]]
    if len(questions) != 1 or definition.name not in _FORMULAS:
        message = (
            f"name {definition.name!r} under one question of tests/docs/metrics.toml, and add its "
            "formula to tests/docs/formulas.toml"
        )
        raise SystemExit(message)
    ((question, names),) = questions
    return {
        "name": definition.name,
        "aliases": aliases(definition.name),
        "blocks": definition.documentation.partition("\n\nExample:\n")[0].split("\n\n"),
        "formula": _FORMULAS[definition.name],
        "range": _range(definition),
        "better": _BETTER[definition.higher_is_better],
        "unit": _unit(definition),
        "takes_k": definition.takes_k,
        "reads": definition.reads,
        "needs": [name for name in definition.inputs if name != "k"],
        "source": definition.source,
        "parameters": own,
        "shared": _shared(definition),
        "rows": _rows(definition),
        "question": question,
        "related": [other for other in names if other != definition.name],
    }


def _unit(definition: Definition) -> str:
    metric = parse(definition.name)
    if definition.per == "total":
        return f"a sum over {unit_of_count(metric)}"
    return (
        f"mean over {unit_of_count(metric)}" if metric.is_mean else "a value of all lists together"
    )


def _range(definition: Definition) -> str:
    low, high = definition.bounds
    words = {(True, True): "any number", (False, True): f"{low:g} or more"}
    return words.get((math.isinf(low), math.isinf(high)), f"{low:g} to {high:g}")


def _shared(definition: Definition) -> list[str]:
    """The shared parameters of a metric, or the exceptions if there are few."""
    declared = parameters(definition)
    names = [name for name in declared if name not in definition.parameters and name != "empty"]
    usual = [
        name for name in SHARED_PARAMETERS if name != "empty" and definition.reads in _takers(name)
    ]
    others = [f"`{name}`" for name in usual if name not in names]
    messages = [f"`{name}`" for name in names]
    if len(others) + 3 <= len(names):
        messages = [f"all of `{definition.reads}`{' but ' if others else ''}{', '.join(others)}"]
    if "empty" in declared and "empty" not in definition.parameters:
        messages.append(f"`empty={format_value(declared['empty'].default)}`")
    if definition.relevant != "positive":
        messages.append(f"`relevant={definition.relevant}`")
    return messages


def _allowed(parameter: Parameter) -> str:
    if parameter.choices is not None:
        return ", ".join(f"`{choice}`" for choice in parameter.choices)
    low, high = parameter.span
    limits = "" if math.isinf(low) else f" from {low:g}"
    limits += "" if high > 1e9 else f" to {high:g}"
    return _KINDS[type(parameter.default)] + limits + parameter.or_percentile


def _rows(definition: Definition) -> dict[tuple[str, str], list[str]]:
    """Values and what a convention sets -> the names with both."""
    rows: dict[tuple[str, str], list[str]] = {}
    for text, sets in _spellings(definition):
        cuts = ("@2", "@5") if definition.takes_k else ("",)
        values = " | ".join(_value(f"{text}{cut}") for cut in cuts)
        rows.setdefault((values, sets), []).append(text)
    return rows


def _spellings(definition: Definition) -> Iterator[tuple[str, str]]:
    """Each name of the metric, with the parameters that its convention sets."""
    yield definition.name, ""
    for name, convention in CONVENTIONS.items():
        if definition.name in convention.metrics:
            yield f"{name}:{definition.name}", "; ".join(chosen(name, definition.name))


@cache
def _events() -> tuple[Event, ...]:
    return tuple(
        Event(**event | {"interactions": _by_item(event["interactions"])})
        for event in _DATA["events"]
    )


def _by_item(table: Mapping[str, Any]) -> dict[Any, Any]:
    """A table of TOML, whose keys are texts, by the numbers of the items."""
    return {int(item): value for item, value in table.items()}


def _value(text: str) -> str:
    accumulator = Accumulator(
        text,
        catalog=10,
        popularity=Popularity(_by_item(_DATA["users"]), users=10),
        similarity=Similarity([*range(1, 9)], vectors=_DATA["vectors"]),
        attributes={name: _by_item(kinds) for name, kinds in _DATA["attributes"].items()},
        examination=[1.0, 0.5],
    )
    for event in _events():
        accumulator.update(
            event.recommendations,
            event.interactions,
            scores=event.scores,
            baseline=event.baseline,
            history=event.history,
            user=event.user,
            per_item=event.per_item,
            shown_instead=event.baseline if parse(text).name == "overlap" else None,
        )
    reading = accumulator.read(parse(text).text)
    if isinstance(reading, UndefinedReading):
        return "an error"
    return f"{reading.value:.6g}" if reading.defined else "undefined"


def _groups() -> dict[Sequence[str], list[tuple[Parameter, str]]]:
    """Statistics -> the parameters that all metrics of these share, with their meaning."""
    shared: dict[str, Parameter] = {}
    for definition in catalogue().values():
        for name, parameter in parameters(definition).items():
            if name not in definition.parameters:
                shared.setdefault(name, parameter)
    assert set(shared) == set(SHARED_PARAMETERS)
    groups: dict[Sequence[str], list[tuple[Parameter, str]]] = {}
    for name, meaning in SHARED_PARAMETERS.items():
        groups.setdefault(_takers(name), []).append((shared[name], meaning))
    return groups


@cache
def _takers(parameter: str) -> tuple[str, ...]:
    """The statistics whose metrics share a parameter."""
    takers = {
        definition.reads
        for definition in catalogue().values()
        if parameter in set(parameters(definition)) - set(definition.parameters)
    }
    return tuple(sorted(takers))


def _cell(given: object) -> str:
    if isinstance(given, Mapping):
        return ", ".join(f"{item}: {gain:g}" for item, gain in given.items()) or "none"
    return ", ".join(map(str, given)) if isinstance(given, list) else "none"
