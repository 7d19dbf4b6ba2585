"""The list of analyses, and the configuration with a table for each."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any, Final, get_origin

from msgspec import defstruct, field

from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.gaps.analysis import GAPS
from streameval.config.config import Config
from streameval.engine.analysis import Analysis
from streameval.events.errors import ConfigError

_OURS: Final[tuple[Analysis[Any, Any], ...]] = (EXPERIMENTS, CHANGES, GAPS)
"""In the order of the page."""

_GROUP: Final = "streameval.analyses"
"""Group of the entry points by which other packages name their analyses."""


def _of_others() -> Iterator[Analysis[Any, Any]]:
    """The analyses of other packages.

    Raises:
        ConfigError: an entry point is not an analysis, or one whose name or table is taken.
    """
    taken = {*Config.__struct_fields__}.union(*((ours.name, ours.table) for ours in _OURS))
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
        yield analysis


def _table(analysis: Analysis[Any, Any]) -> tuple[str, Any, Any]:
    """The field of an analysis: a table that may be absent, or a list of tables."""
    if get_origin(analysis.settings) is list:
        return analysis.table, analysis.settings, field(default_factory=list)
    return analysis.table, analysis.settings | None, None


ANALYSES: Final = (*_OURS, *_of_others())

_KEYS: Final = "".join(f"    {analysis.table}: {analysis.describes}\n" for analysis in ANALYSES)
_TEXT: Final = f"A configuration file; a metric and `source` are required.\n\nAttributes:\n{_KEYS}"

Configuration: Any = defstruct(
    "Configuration",
    [_table(analysis) for analysis in ANALYSES],
    bases=(Config,),
    module=__name__,
    namespace={"__doc__": _TEXT},
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
)
