"""Names that a user may have meant by a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from streameval.events.errors import UsageError


def nearest(text: str, candidates: Iterable[str], similarity: float = 0.6) -> list[str]:
    """The known names closest to a misspelt one, best first; at most three.

    `similarity`: the least, from 0 to 1.
    """
    from difflib import get_close_matches  # noqa: PLC0415  slow, and for a mistake only

    names = list(dict.fromkeys(candidates))
    return get_close_matches(text.lower(), names, n=3, cutoff=similarity)


def suggestion(text: str, candidates: Iterable[str]) -> str:
    """The question "Did you mean ...?" for a misspelt name; empty if no known name is close."""
    names = nearest(text, candidates)
    return f" Did you mean {' or '.join(repr(name) for name in names)}?" if names else ""


def unknown_name_problem(name: str, among: Sequence[str], kind: str) -> str | None:
    """The problem with a name that is not among the allowed names, or None."""
    if name in among:
        return None
    choices = ", ".join(map(repr, among)) or "none yet"
    return f"not among {kind} ({choices}).{suggestion(name, among)}"


def refuse_unknown(
    arguments: Iterable[str],
    allowed: Iterable[str],
    remedies: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse keyword arguments that a function does not have, where Python takes any.

    `remedies`: sentences for some of them, instead of the names of those that there are.

    Raises:
        UsageError: an argument is not allowed.
    """
    choices = sorted(allowed)
    for name in arguments:
        if name not in choices:
            among = f"known: {', '.join(choices)}.{suggestion(name, choices)}"
            raise UsageError(f"{name}= is not an argument; {remedies.get(name, among)}")
