"""Whether the metrics asked for are known, asked for once, and have what they need."""

from __future__ import annotations

from collections.abc import Iterator

from streameval.catalogue import parse
from streameval.config.durations import microseconds
from streameval.config.labels import Problem, absence
from streameval.config.settings import Config
from streameval.errors import (
    ConfigError,
    CutoffExceedsDepthError,
    MetricError,
    MissingInputError,
    SourceError,
)
from streameval.metric import Metric


def metric_problems(config: Config) -> Iterator[Problem]:
    """No metric at all, one that cannot be understood, or one that comes twice."""
    if not config.metrics and not config.metric:
        yield "metrics", 'no metric is asked for; give some, for example metrics = ["ndcg@10"].'
    seen: dict[str, str] = {}
    for place, text in _places(config).items():
        key = f"{place}.name" if place.startswith("metric[") else place
        try:
            metric = parse(text)
        except MetricError as error:
            yield key, str(error)
            continue
        if missing := _EMBEDDED_ONLY.get(metric.definition.name):
            yield key, f"{text!r} needs {missing}"
        canonical = metric.text
        if canonical in seen:
            yield key, f"{text!r} is {seen[canonical]} again; remove one."
        seen.setdefault(canonical, place)


_EMBEDDED_ONLY = {
    "user_novelty": "what each user had met before, which records do not carry; leave it out here, "
    "or count it in a program of your own: accumulator.update(..., history=[...])."
}


def _places(config: Config) -> dict[str, str]:
    places = {f"metrics[{index}]": text for index, text in enumerate(config.metrics)}
    return places | {f"metric[{index}]": each.name for index, each in enumerate(config.metric)}


def experiment_problems(config: Config) -> Iterator[Problem]:
    """An experiment without intervals, of a label that there is not, or that contradicts itself."""
    experiment = config.experiment
    if experiment is None:
        return
    if config.intervals is None:
        yield "experiment", "needs intervals; add intervals = { confidence = 0.95 }."
    if problem := absence(experiment.label, config.labels, "`labels`"):
        yield "experiment.label", f"{experiment.label!r} is {problem}"
    elif not _compared(config, experiment.label):
        yield "experiment.label", f"no metric is kept by {experiment.label!r}."
    try:
        experiment.check(_compared(config, experiment.label))
    except ConfigError as error:
        yield f"experiment.{error.key}", error.problem


def _compared(config: Config, label: str) -> list[Metric]:
    """The metrics that are kept by a label."""
    found = [group.metrics for group in config.families() if label in group.dimensions]
    return list(dict.fromkeys(metric for metrics in found for metric in metrics))


def extent_problems(config: Config) -> Iterator[Problem]:
    """A [[metric]] that is kept where nothing is."""
    windows = config.windows.spans if config.windows is not None else []
    spans = {microseconds(text) for text in windows}
    for number, metric in enumerate(config.metric):
        for index, text in enumerate(metric.windows or []):
            if microseconds(text) not in spans:
                yield (
                    f"metric[{number}].windows[{index}]",
                    f"{text!r} is {absence(text, windows, '[windows] spans')}",
                )
        named = {"labels": (metric.labels, config.labels)}
        named["segments"] = (metric.segments, config.segments)
        for what, (chosen, known) in named.items():
            for index, name in enumerate(chosen or []):
                if problem := absence(name, known, f"`{what}`"):
                    yield f"metric[{number}].{what}[{index}]", f"{name!r} is {problem}"


def input_problems(config: Config) -> Iterator[Problem]:
    """Metrics that miss a catalogue, a file or ranks."""
    try:
        config.accumulator()
    except SourceError as error:
        yield "popularity or similarity", str(error)
    except MetricError as error:
        places = {parse(text).text: place for place, text in _places(config).items()}
        yield places.get(getattr(error, "metric", ""), "metrics"), _in_keys(error)


def _in_keys(error: MetricError) -> str:
    """What an Accumulator misses, in the words of the file rather than of its arguments."""
    if isinstance(error, CutoffExceedsDepthError):
        wanted = "the whole list" if error.k is None else f"rank {error.k}"
        problem = f"but depth = {error.depth} keeps fewer ranks; raise it, or leave it out"
        return f"{error.metric!r} needs {wanted}, {problem}."
    if isinstance(error, MissingInputError):
        return f"{error.metric!r} needs {error.needs}; {_REMEDIES.get(error.needs, error.remedy)}."
    return str(error)


_REMEDIES = {
    "a catalogue": "add catalog = the number of items, or a file of their ids",
    "the items' popularity": 'add popularity = { path = "popularity.csv", users = 1000 }',
    "the items' similarity": 'add similarity = { vectors = "vectors.csv" }',
}
