"""How messages name what the caller may give: an option of a command, or an argument in Python."""

from __future__ import annotations

from typing import Final, NamedTuple

_ARGUMENTS: Final = frozenset({"user", "item", "score", "rank", "rating"})
"""Fields that have an argument of their own in Python."""


class Wording(NamedTuple):
    """The language of the caller.

    Attributes:
        python: whether the caller calls a function, and not a command.

    Example:
        >>> Wording().option("ties", "arrival"), Wording(python=True).option("ties", "arrival")
        ('--ties arrival', "ties='arrival'")
        >>> Wording().column("user"), Wording(python=True).column("truth.user", "member")
        ('--column user=NAME', "columns={'truth.user': 'member'}")
    """

    python: bool = False

    def option(self, name: str, value: str | None = None) -> str:
        """An option, with its value if it has one."""
        if self.python:
            argument = name.replace("-", "_")
            return f"{argument}=" if value is None else f"{argument}={value!r}"
        return f"--{name}" if value is None else f"--{name} {value}"

    def column(self, field: str, name: str = "NAME") -> str:
        """The option that names the column of a field."""
        if not self.python:
            return f"--column {field}={name}"
        return f"{field}={name!r}" if field in _ARGUMENTS else f"columns={{{field!r}: {name!r}}}"


COMMAND: Final = Wording()
PYTHON: Final = Wording(python=True)
