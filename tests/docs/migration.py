"""The tables of docs/how-to/migrate.md: a system's names, and what to write here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streameval.catalogue import catalogue, parameters, parse
from streameval.catalogue.conventions import CONVENTIONS, Convention
from streameval.catalogue.grammar import written

_TABLE = re.compile(r"(?<=<!-- names of )(?P<name>\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page, with each system's table as the conventions are now."""
    return _TABLE.sub(lambda found: f"{found['name']} -->\n{_table(found['name'])}\n", page)


def _table(name: str) -> str:
    convention = CONVENTIONS[name]
    rows = sorted(_rows(name, convention), key=str.lower)
    return "\n".join(
        [
            f"\n{convention.system}:\n",
            *rows,
            "",
        ]
    )


def _rows(name: str, convention: Convention) -> Iterator[str]:
    own = convention.spellings
    others = {each: each for each in convention.metrics if each not in own.values()}
    for theirs, ours in {**own, **others}.items():
        cut = "@10" if _cuts(ours) else ""
        text = parse(f"{name}:{ours}{cut}").text
        yield f"- `{theirs}`: [`{text}`](../reference/metrics/{ours}.md#values)"


def _cuts(metric: str) -> bool:
    definition = catalogue()[metric]
    return definition.takes_k


def chosen(convention: str, metric: str) -> list[str]:
    """The parameters that a convention sets for a metric, where they are not our usual ones."""
    known = parameters(catalogue()[metric], convention)
    usual = {name: each.default for name, each in known.items()}
    return [
        f"{name}={written(value)}"
        for name, value in sorted(CONVENTIONS[convention].metrics[metric].items())
        if value != usual[name]
    ]
