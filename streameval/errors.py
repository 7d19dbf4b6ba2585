"""Every error a user can meet: typed, carrying its data, saying what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def nearest(text: str, known: Iterable[str]) -> list[str]:
    """The names a misspelt one may have meant, best first; at most three."""
    return difflib.get_close_matches(text.lower(), list(known), n=3, cutoff=0.6)


def _suggestion(text: str, known: Iterable[str]) -> str:
    names = nearest(text, known)
    return f" Did you mean {' or '.join(repr(name) for name in names)}?" if names else ""


class StreamevalError(Exception):
    """Root of all errors raised on purpose by this package."""


class MetricError(StreamevalError):
    """A metric cannot be understood or answered."""


class MetricSyntaxError(MetricError):
    """The text of a metric does not follow the grammar."""

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        self.problem = problem
        super().__init__(
            f"metric {text!r}: {problem}. Write [convention:]name[(parameter=value,...)][@k], "
            "for example 'ndcg@10' or 'ndcg(gain=exp2)@10'."
        )


class UnknownMetricError(MetricError):
    """No metric of that name."""

    def __init__(self, text: str, known: Iterable[str]) -> None:
        self.text = text
        self.known = sorted(known)
        super().__init__(
            f"unknown metric {text!r}.{_suggestion(text, self.known)} "
            f"Known: {', '.join(self.known)}."
        )


class UnknownConventionError(MetricError):
    """No convention of that name, and no module either."""

    def __init__(self, text: str, known: Iterable[str]) -> None:
        self.text = text
        self.known = sorted(known)
        super().__init__(
            f"unknown convention {text!r}, and no module of that name can be found."
            f"{_suggestion(text, self.known)} Known conventions: {', '.join(self.known)}."
        )


class MetricModuleError(MetricError):
    """The module that a metric of somebody's own is in fails while it is imported."""

    def __init__(self, module: str, error: Exception) -> None:
        self.module = module
        self.error = error
        super().__init__(
            f"module {module!r} cannot be imported: {type(error).__name__}: {error}. "
            "Import it in Python to see where it fails."
        )


class UndeclaredMetricError(MetricError):
    """What was given as a metric is not one."""

    def __init__(self, found: object) -> None:
        self.found = found
        super().__init__(
            f"{found!r} is no metric; give a metric's text, for example 'ndcg@10', or a function "
            "decorated with @streameval.metric(...), with a cut-off as metric_at(function, k=10)."
        )


class MetricLawError(MetricError, AssertionError):
    """A metric breaks a law that every metric keeps."""

    def __init__(self, metric: str, law: str, detail: str, events: Sequence[object]) -> None:
        self.metric = metric
        self.law = law
        self.detail = detail
        self.events = events
        shown = "".join(f"\n    {event}" for event in events) or " no events at all"
        super().__init__(f"metric {metric!r} breaks the law {law!r}: {detail}. On:{shown}")


class MetricParameterError(MetricError):
    """A metric does not have that parameter, or not that value of it."""

    def __init__(self, metric: str, parameter: str, found: object, allowed: str) -> None:
        self.metric = metric
        self.parameter = parameter
        self.found = found
        self.allowed = allowed
        super().__init__(f"metric {metric!r}: {parameter} = {found!r} is not possible; {allowed}.")


class CutoffExceedsDepthError(MetricError):
    """A cut-off lies beyond the ranks that were kept."""

    def __init__(self, metric: str, k: int | None, depth: int) -> None:
        self.metric = metric
        self.k = k
        self.depth = depth
        wanted = "the whole list" if k is None else f"rank {k}"
        super().__init__(
            f"metric {metric!r} needs {wanted}, but only the first {depth} ranks are kept. "
            f"Name it when the Accumulator is made, or pass a larger depth="
        )


class NotKeptError(MetricError):
    """A value needs a statistic that was not kept from the start."""

    def __init__(self, metric: str, why: str) -> None:
        self.metric = metric
        self.why = why
        super().__init__(
            f"metric {metric!r} cannot be read: {why}. Name it when the Accumulator is made."
        )


class MissingInputError(MetricError):
    """A metric needs something that was not given (a catalogue, scores, ...)."""

    def __init__(self, metric: str, needs: str, remedy: str) -> None:
        self.metric = metric
        self.needs = needs
        self.remedy = remedy
        super().__init__(f"metric {metric!r} needs {needs}; {remedy}.")


class UndefinedMetricError(MetricError):
    """The convention asked for has no value where its original raises an error."""

    def __init__(self, metric: str, why: str) -> None:
        self.metric = metric
        self.why = why
        super().__init__(f"metric {metric!r} is undefined: {why}.")


class UnlikeStateError(StreamevalError):
    """Two states that were not made alike cannot be merged or loaded."""

    def __init__(self, what: str, left: object, right: object) -> None:
        self.what = what
        self.left = left
        self.right = right
        super().__init__(
            f"unlike {what}: here {left!r}, there {right!r}. Only states made with the same "
            "settings can be merged or loaded."
        )


class StateVersionError(StreamevalError):
    """A saved state has a version that this release does not know."""

    def __init__(self, what: str, found: object, known: int) -> None:
        self.what = what
        self.found = found
        self.known = known
        super().__init__(
            f"{what}: state version {found!r} is not known; this release reads version {known}. "
            "Use the release that wrote it, or a newer one."
        )


class DamagedStateError(StreamevalError):
    """A saved state is not what this package wrote."""

    def __init__(self, what: str, problem: str) -> None:
        self.what = what
        self.problem = problem
        super().__init__(
            f"{what}: the saved state is damaged ({problem}). Nothing was loaded; use another copy."
        )


class InvalidEventError(StreamevalError):
    """An event handed to an Accumulator is not a valid event."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason = reason
        self.detail = detail
        super().__init__(f"invalid event ({reason}): {detail}.")


class ConfigError(StreamevalError):
    """The configuration does not say something that can be done."""

    def __init__(self, path: str, key: str, problem: str) -> None:
        self.path = path
        self.key = key
        self.problem = problem
        where = f"{path}: {key}" if key else path
        super().__init__(f"{where}: {problem}")


class SourceError(StreamevalError):
    """A source cannot be read; carries where and what to do."""

    def __init__(self, source: str, problem: str, remedy: str) -> None:
        self.source = source
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{source}: {problem}; {remedy}.")


class MissingExtraError(StreamevalError):
    """Something was asked for that an optional extra of the package brings."""

    def __init__(self, what: str, extra: str) -> None:
        self.what = what
        self.extra = extra
        super().__init__(f"{what} needs an extra: pip install 'streameval[{extra}]'.")


class BrokerError(StreamevalError):
    """The broker that was to be started here does not start."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"the Kafka broker does not start: {problem}; {remedy}.")


class PublishError(StreamevalError):
    """Records could not be written to a topic; carries how many were before that."""

    def __init__(self, topic: str, published: int, problem: str, remedy: str) -> None:
        self.topic = topic
        self.published = published
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"topic {topic!r}, after {published:,} records: {problem}; {remedy}.")


class AddressInUseError(StreamevalError):
    """The address to listen on is taken, or is not ours to take."""

    def __init__(self, address: str, problem: str) -> None:
        self.address = address
        self.problem = problem
        super().__init__(
            f"cannot listen on {address}: {problem}; choose another address with --listen "
            "(or [web] listen)."
        )


class NoHitsWarning(UserWarning):
    """Many lists with interactions, and never a hit: the ids are probably of two kinds."""
