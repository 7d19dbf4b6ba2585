"""The lists of names in docs/how-to/migrate.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streameval.catalogue import catalogue, parameters, parse
from streameval.catalogue.conventions import CONVENTIONS, Convention
from streameval.catalogue.grammar import written

_TABLE = re.compile(r"(?<=<!-- names of )(?P<name>\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with current lists of each system's names."""
    return _TABLE.sub(lambda found: f"{found['name']} -->\n{_table(found['name'])}\n", page)


def _table(name: str) -> str:
    convention = CONVENTIONS[name]
    names = sorted(_names(name, convention), key=str.lower)
    return f"\n{convention.system}, behind `{name}:`: {', '.join(names)}.\n"


def _names(name: str, convention: Convention) -> Iterator[str]:
    """The names of the system, each with a cut-off and a link to the metric."""
    own = convention.spellings
    others = {each: each for each in convention.metrics if each not in own.values()}
    for theirs, ours in {**own, **others}.items():
        cut = "@10" if catalogue()[ours].takes_k else ""
        assert parse(f"{name}:{theirs}{cut}") == parse(f"{name}:{ours}{cut}")
        yield f"[`{theirs}{cut}`](../reference/metrics/{ours}.md#values)"


def chosen(convention: str, metric: str) -> list[str]:
    """The parameters that a convention sets for a metric to other values than the default."""
    known = parameters(catalogue()[metric], convention)
    usual = {name: each.default for name, each in known.items()}
    return [
        f"{name}={written(value)}"
        for name, value in sorted(CONVENTIONS[convention].metrics[metric].items())
        if value != usual[name]
    ]
