"""A metric that cannot be understood or answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streameval.errors.root import StreamevalError, nearest


def _suggestion(text: str, known: Iterable[str]) -> str:
    names = nearest(text, known)
    return f" Did you mean {' or '.join(repr(name) for name in names)}?" if names else ""


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


class AbsentMetricError(MetricError):
    """A system has a metric of that name, and there is nothing for it here."""

    def __init__(self, text: str, name: str, system: str) -> None:
        self.text, self.name, self.system = text, name, system
        super().__init__(
            f"{text!r}: {name} of {system} is not among the metrics here; "
            "`streameval metrics` lists those that are."
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


class MetricDeclarationError(MetricError, TypeError):
    """A function is declared a metric without what every metric must say of itself."""

    def __init__(self, *functions: object) -> None:
        self.functions = functions
        names = [getattr(each, "__name__", repr(each)) for each in functions]
        above = f" above {', '.join(names)}" if names else ""
        super().__init__(
            f"@metric{above} needs parentheses with bounds= and source= at least: write "
            "@metric(bounds=(0, 1), source='where the formula is from')."
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


class NotComparableError(MetricError):
    """Nothing is kept by user group that a comparison could be made of."""

    def __init__(self, metric: str, why: str) -> None:
        self.metric = metric
        self.why = why
        super().__init__(f"metric {metric!r} cannot be compared. {why}")


class SuspiciousEventsWarning(UserWarning):
    """The events are probably not what was meant: many lists and never a hit, for example."""
