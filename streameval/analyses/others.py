"""Analyses of other packages: found by their entry points, and guarded.

What a function of them raises names the analysis and its package, wherever it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, NamedTuple

from streameval.accumulator.kinds.spec import StatisticSpec
from streameval.engine.analysis import Analysis, Moment, own_error
from streameval.events.errors import ConfigError

_GROUP: Final = "streameval.analyses"
"""Entry points by which other packages name their analyses."""

_TYPES: Final = {"settings", "answers"}
"""Fields of an analysis that are types, which msgspec calls."""

_ITERATED: Final = {"check", "expects", "gauges", "headlines", "need", "needs"}
"""Functions that may be generators, which raise while they are read."""


def analyses_of_others(taken: set[str]) -> Iterator[Analysis[Any, Any]]:
    """The analyses of other packages; `taken`: names and tables that they cannot have.

    Raises:
        ConfigError: an entry point is not an analysis, or one whose name or table is taken.
    """
    for point in entry_points(group=_GROUP):
        try:
            analysis = point.load()
        except Exception as error:  # the import of a package may raise anything
            problem = f"cannot be loaded ({type(error).__name__}: {error})"
            raise ConfigError(_GROUP, point.name, f"{point.value!r} {problem}.") from error
        problem = ""
        if not isinstance(analysis, Analysis):
            problem = "is not a streameval.engine.analysis.Analysis"
        elif taken & {analysis.name, analysis.table}:
            problem = f"has a name or a table that is taken: {analysis.name}, [{analysis.table}]"
        if problem:
            raise ConfigError(_GROUP, point.name, f"{point.value!r} {problem}; mend its package.")
        taken |= {analysis.name, analysis.table}
        yield guarded(analysis, _package(point))


def _package(point: EntryPoint) -> str:
    """Name and version of the package with an entry point; its module, of an unknown package."""
    return point.module if point.dist is None else f"{point.dist.name} {point.dist.version}"


def guarded(analysis: Analysis[Any, Any], package: str) -> Analysis[Any, Any]:
    """An analysis whose functions raise OwnAnalysisError, and MemoryError, only."""
    functions: dict[str, Any] = {
        name: _Guarded(analysis.name, analysis.table, package, name, value)
        for name, value in analysis._asdict().items()
        if callable(value) and name not in _TYPES
    }
    return analysis._replace(package=package, **functions)


class _Guarded(NamedTuple):
    """A function of an analysis; equal ones are equal, as needs of several families are one."""

    analysis: str
    table: str
    package: str
    name: str
    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        try:
            result: Any = self.function(*arguments)
            if self.name == "reader":
                if result is not None:
                    result = _GuardedReader(self._replace(name="read", function=result.read))
            elif self.name in {"need", "needs"}:
                result = [self._need(need) for need in result]
            elif self.name in _ITERATED:
                result = list(result)
        except MemoryError:
            raise
        except Exception as error:  # a function of another package may raise anything
            raise own_error(error, self.analysis, self.table, self.package, self.name) from error
        return result

    def _need(self, need: Any) -> Any:
        if isinstance(need, StatisticSpec):
            return need
        if self.name == "need" or not callable(need):
            raise TypeError(f"{need!r:.80} is not a specification of a statistic")
        return self._replace(name="need", function=need)


class _GuardedReader(NamedTuple):
    """A reader of a guarded analysis."""

    call: _Guarded

    def read(self, moment: Moment) -> Any:
        """See `Reader`."""
        return self.call(moment)
