"""The JSON of /api/v1/catalogue: what each metric that is shown means."""

from __future__ import annotations

import math

import msgspec

from streameval.conventions import CONVENTIONS
from streameval.exporters.figures import counted
from streameval.metric import Metric
from streameval.pipeline.snapshot import Snapshot


def definitions(snapshot: Snapshot) -> bytes:
    """The definition of every metric of a snapshot as JSON, in its order."""
    metrics = dict.fromkeys(entry.metric for entry in snapshot.series)
    return msgspec.json.encode({"metrics": [definition(each) for each in metrics]})


def definition(metric: Metric) -> dict[str, object]:
    """One of them, from the metric's own docstring.

    Example:
        >>> from streameval.catalogue import parse
        >>> definition(parse("ndcg@10"))["formula"]
        'ndcg@k = mean over lists of (dcg@k / dcg@k of the best order)'
    """
    meant = metric.definition
    text, formula = _parts(meant.documentation)
    convention = CONVENTIONS.get(metric.convention or "")
    return {
        "metric": metric.text,
        "name": meant.name,
        "k": metric.k,
        "convention": metric.convention,
        "system": None if convention is None else convention.system,
        "parameters": dict(metric.options),
        "summary": meant.summary,
        "text": text,
        "formula": formula,
        "range": [None if math.isinf(bound) else bound for bound in meant.bounds],
        "higher_is_better": meant.higher_is_better,
        "counts": counted(metric),
        "mean": metric.is_mean,
        "source": meant.source,
    }


def _parts(documentation: str) -> tuple[str, str | None]:
    """What follows the first line, and the formula, which is indented; without the example."""
    explained = documentation.partition("\n\nExample:\n")[0]
    _, *blocks = explained.split("\n\n")
    words = [" ".join(block.split()) for block in blocks if not block.startswith("    ")]
    formulas = [block for block in blocks if block.startswith("    ")]
    lines = [line.removeprefix("    ") for block in formulas for line in block.splitlines()]
    return "\n\n".join(words), "\n".join(lines) or None
