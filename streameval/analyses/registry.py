"""The list of analyses, and the configuration with a table for each."""

from __future__ import annotations

from typing import Any, Final, get_origin

from msgspec import defstruct, field

from streameval.analyses.changes.analysis import CHANGES
from streameval.analyses.experiments.analysis import EXPERIMENTS
from streameval.analyses.gaps.analysis import GAPS
from streameval.analyses.others import analyses_of_others
from streameval.config.config import Config
from streameval.engine.analysis import Analysis

_OURS: Final[tuple[Analysis[Any, Any], ...]] = (EXPERIMENTS, CHANGES, GAPS)
"""In the order of the page."""


def _table(analysis: Analysis[Any, Any]) -> tuple[str, Any, Any]:
    """The field of an analysis: a table that may be absent, or a list of tables."""
    if get_origin(analysis.settings) is list:
        return analysis.table, analysis.settings, field(default_factory=list)
    return analysis.table, analysis.settings | None, None


_TAKEN: Final = {*Config.__struct_fields__}.union(*((ours.name, ours.table) for ours in _OURS))

ANALYSES: Final = (*_OURS, *analyses_of_others(_TAKEN))

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
