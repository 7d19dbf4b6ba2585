"""docs/reference/metrics.md and the page of each metric, from their declarations."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

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
from streameval.events import Id
from streameval.exporters.view import unit_of_count
from tests.docs.tables import chosen
from tests.house.checkout import ROOT

DOCS = ROOT / "docs"
INDEX = DOCS / "reference" / "metrics.md"
FOLDER = DOCS / "reference" / "metrics"
CUTOFFS = ("@2", "@5")
EVENTS = (
    Event(
        recommendations=[1, 2, 3, 4],
        interactions={1: 1.0, 4: 3.0, 7: 2.0},
        scores=[0.9, 0.8, 0.3, 0.1],
        baseline=[2, 1, 5, 6],
        history=[2, 7],
        user="ann",
        per_item={
            "propensity": [0.5, 0.25, 0.25, 0.125],
            "target": [0.25, 0.5, 0.25, 0.25],
            "predicted": [0.5, 0.25, 0.25, 0.5],
            "expected": [0.5, 0.25, 0.25, 0.25],
            "team": ["a", "b", "a", "b"],
        },
    ),
    Event(
        recommendations=[2, 5, 1, 6],
        interactions={5: 1.0},
        scores=[0.7, 0.6, 0.6, 0.2],
        baseline=[1, 2, 3, 4],
        history=[],
        user="bob",
        per_item={
            "propensity": [0.25, 0.25, 0.5, 0.125],
            "target": [0.5, 0.25, 0.25, 0.125],
            "predicted": [0.25, 0.5, 0.25, 0.25],
            "expected": [0.25, 0.25, 0.25, 0.25],
            "team": ["b", "a", "b", "a"],
        },
    ),
    Event(
        recommendations=[3, 1, 7, 8],
        interactions={},
        scores=[0.5, 0.4, 0.2, 0.1],
        baseline=[3, 1, 7, 8],
        history=[3, 1],
        user="ann",
        per_item={
            "propensity": [0.5, 0.5, 0.125, 0.25],
            "target": [0.25, 0.5, 0.25, 0.25],
            "predicted": [0.25, 0.25, 0.25, 0.25],
            "expected": [0.5, 0.25, 0.25, 0.25],
            "team": ["a", "b", "b", "a"],
        },
    ),
)
USERS: Mapping[Id, float] = {1: 8, 2: 6, 3: 4, 4: 2, 5: 2, 6: 1, 7: 1}
VECTORS = [[1, 0], [1, 0], [1, 1], [0, 1], [0, 1], [1, 2], [2, 1], [1, 1]]
_GENRES = ("drama", "drama news", "news", "sport", "news sport", "drama", "sport", "news")
_PROVIDERS = ("acme", "acme", "bolt", "bolt", "acme", "bolt", "acme", "acme")
_TIERS = ("head", "mid", "mid", "tail", "tail", "tail", "tail", "tail")
ATTRIBUTES: Mapping[str, Mapping[Id, Sequence[str]]] = {
    name: {item: words.split() for item, words in enumerate(values, 1)}
    for name, values in (("genre", _GENRES), ("provider", _PROVIDERS), ("tier", _TIERS))
}
QUESTIONS: Mapping[str, Sequence[str]] = {
    "Did users find anything in the list?": ("hit_rate", "ctr", "hits", "value_per_list"),
    "How far up is the first item they wanted?": ("mrr", "err"),
    "Is the order good?": ("ndcg", "map", "dcg", "ideal_dcg", "rbp", "gm_map", "iprec_at_recall"),
    "How much of what they wanted is in the list, and how much of the list did they want?": (
        *("recall", "precision", "f1", "r_precision", "fallout", "mcc"),
        *("relevant", "retrieved", "judged", "bpref"),
    ),
    "Are scores in the right order?": ("auc", "gauc", "roc_auc", "partial_auc", "pap"),
    "Are scores right as numbers?": (
        *("log_loss", "normalised_entropy", "expected_calibration_error", "rmse", "mae"),
    ),
    "How much of the catalogue is shown, and how evenly?": (
        *("item_coverage", "distinct_items", "gini", "shannon_entropy", "users_covered"),
        *("exposure_share", "group_disparity", "average_popularity", "tail_percentage"),
    ),
    "Is it more than the popular and the expected?": (
        *("novelty", "user_novelty", "serendipity", "unexpectedness", "stratified_recall"),
    ),
    "Are lists varied, and fit for each user?": (
        *("list_diversity", "category_diversity", "personalization", "miscalibration"),
        *("alpha_ndcg", "subtopic_recall"),
    ),
    "Would another policy or ranker be better?": (
        *("ips", "snips", "dr", "importance_weight", "clipped_share", "reward_limit"),
        *("interleaving", "overlap"),
        *("debiased_ctr", "debiased_dcg"),
    ),
}
"""What people ask -> the metrics that answer; each metric stands once."""
_FORMULAS = tomllib.loads((ROOT / "tests/docs/formulas.toml").read_text(encoding="utf-8"))
_BETTER: Mapping[bool | None, str] = {True: "higher", False: "lower", None: "neither"}
_EXAMPLE = "[the example](../metrics.md#the-worked-example)"
_KINDS = {str: "a word", int: "a whole number", float: "a number", bool: "true or false"}


def pages() -> dict[Path, str]:
    """Path -> text of the page of every metric and of their index."""
    made = {FOLDER / f"{name}.md": page(definition) for name, definition in catalogue().items()}
    index = INDEX.read_text(encoding="utf-8")
    sections = {
        "Which one do I want?": _questions(),
        "Conventions": _conventions(),
        "The catalogue": _catalogue(),
        "What metrics read": _statistics(),
        "Shared parameters": _shared_parameters(),
        "The worked example": _example(),
    }
    for heading, text in sections.items():
        index = _with_section(index, heading, text)
    return {**made, INDEX: index}


def _with_section(page: str, heading: str, text: str) -> str:
    before, title, rest = page.partition(f"\n## {heading}\n")
    _, following, after = rest.partition("\n## ")
    return f"{before}{title}\n{text}{following}{after}"


def page(definition: Definition) -> str:
    others = aliases(definition.name)
    parts = [
        f"# `{definition.name}`",
        *_documentation(definition),
        _glance(definition),
        "## Parameters",
        "\n".join(_parameters(definition)),
        "## Values",
        "\n".join(_values(definition)),
        _related(definition.name),
    ]
    if others:
        parts[1:1] = [f"Also known as {', '.join(f'`{alias}`' for alias in others)}."]
    return "\n\n".join(parts) + "\n"


def _documentation(definition: Definition) -> Iterator[str]:
    """The text of a metric; its formula in LaTeX, then as the docstring has it."""
    for block in definition.documentation.partition("\n\nExample:\n")[0].split("\n\n"):
        if block.startswith("    "):
            yield f"```math\n{_FORMULAS[definition.name]}\n```"
            yield "In words ([notation](../metrics.md#notation)):"
            yield f"```text\n{_dedented(block)}\n```"
        else:
            yield block


def _dedented(block: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in block.splitlines())


def _glance(definition: Definition) -> str:
    better = _BETTER[definition.higher_is_better]
    cut = "" if definition.takes_k else "; no cut-off"
    needs = [f"`{name}`" for name in definition.inputs if name != "k"]
    needed = f" and {', '.join(needs)}" if needs else ""
    reads = f"reads [`{definition.reads}`](../metrics.md#what-metrics-read){needed}"
    return "\n".join(
        [
            f"- {_range(definition)}, {better} is better; {_unit(definition)}{cut}; {reads}",
            f"- source: {definition.source}",
        ]
    )


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


def _parameters(definition: Definition) -> Iterator[str]:
    declared = parameters(definition)
    specific = [parameter for name, parameter in declared.items() if name in definition.parameters]
    yield from map(_parameter, specific)
    shared = [name for name in declared if name not in definition.parameters and name != "empty"]
    said = [_shared(definition.reads, shared)] if shared else []
    if "empty" in declared and "empty" not in definition.parameters:
        said.append(f"`empty={format_value(declared['empty'].default)}`")
    if said:
        yield f"- [shared](../metrics.md#shared-parameters): {', '.join(said)}"
    elif not specific:
        yield "None."


def _shared(reads: str, names: Sequence[str]) -> str:
    """The shared parameters of a metric, or the exceptions if there are few."""
    all_of_it = [name for name in SHARED_PARAMETERS if name != "empty" and reads in _takers(name)]
    others = [name for name in all_of_it if name not in names]
    without = f" but {', '.join(f'`{name}`' for name in others)}" if others else ""
    chosen = ", ".join(f"`{name}`" for name in names)
    return chosen if len(others) + 3 > len(names) else f"all of `{reads}`{without}"


def _parameter(parameter: Parameter) -> str:
    return f"- `{parameter.name}={format_value(parameter.default)}`: {_allowed(parameter)}"


def _allowed(parameter: Parameter) -> str:
    if parameter.choices is not None:
        return ", ".join(f"`{choice}`" for choice in parameter.choices)
    low, high = parameter.span
    limits = "" if math.isinf(low) else f" from {low:g}"
    return _KINDS[type(parameter.default)] + limits + ("" if high > 1e9 else f" to {high:g}")


def _values(definition: Definition) -> Iterator[str]:
    cuts = CUTOFFS if definition.takes_k else ("",)
    at = f"{', '.join(f'`{cut}`' for cut in cuts)} of " if definition.takes_k else "Of "
    yield f"{at}{_EXAMPLE}, as each system defines it:"
    yield ""
    heads = [f"`{cut}`" for cut in cuts] if definition.takes_k else ["value"]
    yield f"| name | {' | '.join(heads)} | sets |"
    yield f"|---|{'---:|' * len(heads)}---|"
    rows: dict[tuple[str, str], list[str]] = {}
    for text, difference in _spellings(definition):
        values = " | ".join(_value(f"{text}{cut}") for cut in cuts)
        rows.setdefault((values, difference), []).append(f"`{text}`")
    for (values, difference), names in rows.items():
        yield f"| {', '.join(names)} | {values} | {difference} |"


def _related(name: str) -> str:
    """The metrics that answer the same question."""
    ((question, names),) = ((asked, named) for asked, named in QUESTIONS.items() if name in named)
    others = ", ".join(f"[`{other}`]({other}.md)" for other in names if other != name)
    return f"## Related\n\n*{question}* {others}"


def _questions() -> str:
    rows = [
        f"- **{question}** {', '.join(f'[`{name}`](metrics/{name}.md)' for name in names)}"
        for question, names in QUESTIONS.items()
    ]
    return "\n".join([*rows, ""])


def _spellings(definition: Definition) -> Iterator[tuple[str, str]]:
    """Each name of the metric, with the parameters that its convention sets."""
    yield definition.name, ""
    for name, convention in CONVENTIONS.items():
        if definition.name in convention.metrics:
            yield f"{name}:{definition.name}", "; ".join(chosen(name, definition.name))


def _value(text: str) -> str:
    popularity = Popularity(USERS, users=10)
    similarity = Similarity([*range(1, 9)], vectors=VECTORS)
    accumulator = Accumulator(
        text,
        catalog=10,
        popularity=popularity,
        similarity=similarity,
        attributes=ATTRIBUTES,
        examination=[1.0, 0.5],
    )
    for event in EVENTS:
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


def _conventions() -> str:
    rows = [f"- `{name}`: {convention.system}" for name, convention in CONVENTIONS.items()]
    return "\n".join(
        [
            "Systems define metrics of one name differently. A convention gives one system's",
            "numbers, and accepts its spelling: `recbole:map@10`, `capri:mapk@10`. It sets",
            "parameters, which a text overrides (`replay:HitRate(statistic=median)@10`), and takes",
            "steps that no parameter does. The page of each metric gives its values and, beside",
            "them, what each convention does; `replay`, `replay_0_9` and `replay_0_11` also have",
            "`method=lower` and `deviation=single`. [Migrate](../how-to/migrate.md) lists the",
            "names of each system.\n",
            *rows,
            "",
            "Rules that only conventions have:\n",
            *(f"- `{name}={format_value(RULES[name])}`: {text}" for name, text in _RULES.items()),
            "- `repeats`: with `compact_before_cut` they are removed before the list is cut at k,",
            "  with `compact_after_cut` after it is cut at `rows` items, or k",
            "",
        ]
    )


_RULES: Mapping[str, str] = {
    "counting": "with `every` a repeated interaction counts each time, with `joined` an item as "
    "often as the whole list has it",
    "ids": "with `integer` interactions that are text are an error",
    "empty_list": "lists without items count 0, are left out, or are an error",
    "method": "with `lower` quantiles are not interpolated between values",
    "deviation": "with `single` the standard deviation has 32 bits, and is 0 for one value",
    "undefined": "with `error` a list without a value is an error",
    "least": "fewer values are an error",
    "positive": "with `one` only items with a gain of exactly 1 are positive",
    "single": "whether scores are rounded to 32 bits",
}


def _catalogue() -> str:
    rows = [
        f"- [`{name}`](metrics/{name}.md): {definition.summary.removesuffix('.')}"
        for name, definition in catalogue().items()
    ]
    return "\n".join([*rows, ""])


def _statistics() -> str:
    rows = [f"- `{name}`: {kept.what}. Memory: {kept.memory}" for name, kept in STATISTICS.items()]
    return "\n".join([*rows, ""])


def _shared_parameters() -> str:
    shared_ones = {
        name: parameter
        for definition in catalogue().values()
        for name, parameter in parameters(definition).items()
        if name not in definition.parameters
    }
    assert set(shared_ones) == set(SHARED_PARAMETERS)
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, meaning in SHARED_PARAMETERS.items():
        row = f"{_parameter(shared_ones[name])}; {meaning}"
        groups.setdefault(tuple(_takers(name)), []).append(row)
    head = "With the default and the allowed values, by the statistic that the metric reads:\n"
    return "\n".join([head, *(_group(takers, rows) for takers, rows in groups.items())])


def _group(takers: Sequence[str], rows: Sequence[str]) -> str:
    names = ", ".join(f"`{taker}`" for taker in takers)
    return "\n".join([f"{names}:\n", *rows, ""])


@cache
def _takers(parameter: str) -> Sequence[str]:
    """The statistics whose metrics share a parameter."""
    takers = (
        definition.reads
        for definition in catalogue().values()
        if parameter in set(parameters(definition)) - set(definition.parameters)
    )
    return sorted(set(takers))


def _example() -> str:
    rows = [
        f"| {number} | {_row(event.recommendations)} | {_row(event.interactions)} "
        f"| {_row(event.scores)} | {_row(event.baseline)} | {_row(event.history)} | {event.user} |"
        for number, event in enumerate(EVENTS, 1)
    ]
    values = [
        f"| {number} | " + " | ".join(map(_row, (event.per_item or {}).values())) + " |"
        for number, event in enumerate(EVENTS, 1)
    ]
    names = list(EVENTS[0].per_item or ())
    users = ", ".join(f"{item}: {count}" for item, count in USERS.items())
    vectors = ", ".join(f"{item}: {tuple(row)}" for item, row in enumerate(VECTORS, 1))
    attributes = {
        name: [f"{item}: {' and '.join(values)}" for item, values in kinds.items()]
        for name, kinds in ATTRIBUTES.items()
    }
    return "\n".join(
        [
            "Every page ends with the metric's values on these events:\n",
            "| event | recommendations | interactions: gain | scores | baseline | history | user |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "\nValues of the items (`per_item`):\n",
            f"| event | {' | '.join(names)} |",
            f"|---|{'---|' * len(names)}",
            *values,
            f"\nThe catalogue has 10 items. Of 10 users, these interacted with each item: {users}.",
            f"The vectors of the items are {vectors}. Attributes:\n",
            *(f"- `{name}`: {', '.join(rows)}" for name, rows in attributes.items()),
            "",
        ]
    )


def _row(given: object) -> str:
    if isinstance(given, Mapping):
        return ", ".join(f"{item}: {gain:g}" for item, gain in given.items()) or "none"
    return ", ".join(map(str, given)) if isinstance(given, list) else "none"
