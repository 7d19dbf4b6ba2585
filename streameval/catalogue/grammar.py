"""The grammar of metric texts: [convention:]name[(parameter=value,...)][@k]."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

import msgspec

from streameval.events import LARGEST_RANK
from streameval.events.errors import MetricTextError

_SHAPE = re.compile(
    r"(?:(?P<prefix>[A-Za-z_][\w.]*):)?(?P<name>[A-Za-z_]\w*(?:\.\d+)?)"
    r"(?:\((?P<parameters>[^()]*)\))?(?:@(?P<k>[^@]+))?"
)
_PARAMETER = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>[^\s,=][^,=]*?)\s*")


class Spelling(msgspec.Struct, frozen=True):
    """The parts of a metric's text.

    Attributes:
        prefix: the convention or module before the colon; None without one.
        k: cut-off from 1; None for the whole list.
    """

    prefix: str | None
    name: str
    parameters: tuple[tuple[str, str | int | float | bool], ...]
    k: int | None

    def without(self, names: Collection[str]) -> Spelling:
        """The spelling without these parameters."""
        others = tuple(parameter for parameter in self.parameters if parameter[0] not in names)
        return msgspec.structs.replace(self, parameters=others)

    def __str__(self) -> str:
        prefix = f"{self.prefix}:" if self.prefix else ""
        inside = ",".join(f"{name}={format_value(value)}" for name, value in self.parameters)
        k = f"@{self.k}" if self.k is not None else ""
        return f"{prefix}{self.name}{f'({inside})' if inside else ''}{k}"


def syntax_error(text: str, problem: str) -> MetricTextError:
    """The error for a text that does not follow the grammar."""
    return MetricTextError(
        f"metric {text!r}: {problem}. Write [convention:]name[(parameter=value,...)][@k], "
        "for example 'ndcg@10' or 'ndcg(gain=exp2)@10'.",
        metric=text,
    )


def spelling(text: str) -> Spelling:
    """Parse a metric's text.

    Raises:
        MetricTextError: it does not follow the grammar.

    Example:
        >>> str(spelling("ndcg( gain = exp2 )@10"))
        'ndcg(gain=exp2)@10'
    """
    matched = _SHAPE.fullmatch(text.strip())
    if matched is None:
        raise syntax_error(text, "not a valid metric")
    parameters: dict[str, str | int | float | bool] = {}
    inside, k = matched["parameters"], matched["k"]
    for part in () if inside is None else inside.split(","):
        parameter = _PARAMETER.fullmatch(part)
        if parameter is None:
            raise syntax_error(text, f"{part.strip()!r} is not of the form parameter=value")
        if parameter["name"] in parameters:
            raise syntax_error(text, f"{parameter['name']!r} appears twice")
        parameters[parameter["name"]] = _value(parameter["value"])
    if k and not (k.isascii() and k.isdigit() and 1 <= float(k) <= LARGEST_RANK):
        problem = f"the cut-off {k!r} is not a whole number from 1 to {LARGEST_RANK:,}"
        raise syntax_error(text, problem)
    return Spelling(
        prefix=matched["prefix"],
        name=matched["name"],
        parameters=tuple(sorted(parameters.items())),
        k=int(k) if k else None,
    )


def format_value(value: str | float) -> str:
    """The text form of a parameter's value.

    Example:
        >>> format_value(0.8), format_value(3.0), format_value(True)
        ('0.8', '3', 'true')
    """
    if isinstance(value, bool):
        return str(value).lower()
    # Not repr(value), which NumPy overrides with "np.float64(0.8)".
    return float.__repr__(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _value(text: str) -> str | int | float | bool:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        # "nan" stays text because it is a choice of parameters; no parameter takes infinity.
        return number if abs(number) < math.inf else text
    return text
