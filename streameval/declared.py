"""Metrics of somebody's own: functions decorated with `@metric` in a module of theirs."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from types import ModuleType

from streameval.errors import MetricModuleError, UnknownConventionError, UnknownMetricError
from streameval.metric import Definition, definition_of


def declared(module: str, name: str, *, conventions: Collection[str]) -> Definition:
    """The metric of a name that a module declares.

    Args:
        module: for example "my_package.metrics".
        name: of the metric, without its cut-off.
        conventions: what else may stand before a colon, for the error.

    Raises:
        UnknownConventionError: there is no such module.
        UnknownMetricError: it declares no metric of that name.
        MetricModuleError: it fails while it is imported.
    """
    content = vars(_imported(module, conventions)).values()
    found = {each.name: each for each in filter(None, map(definition_of, content))}
    if name not in found:
        raise UnknownMetricError(f"{module}:{name}", [f"{module}:{each}" for each in found])
    return found[name]


def _imported(module: str, conventions: Collection[str]) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise UnknownConventionError(module, conventions) from None
        raise MetricModuleError(module, error) from error
    except Exception as error:  # what somebody's module does while imported is theirs to know
        raise MetricModuleError(module, error) from error
