"""Tables of results for a notebook: as a frame, as HTML, as LaTeX and as text."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from streameval.events.errors import MissingExtraError
from streameval.events.extras import import_extra
from streameval.exporters.page.templates import in_text
from streameval.inference.text_table import TextTable

Library: TypeAlias = Literal["pandas", "polars", "pyarrow"]
"""A library of frames."""

_LIBRARIES: Final[Sequence[Library]] = ("pandas", "polars", "pyarrow")

_LATEX: Final = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\N{EN DASH}": "--",
        "≤": r"$\leq$",
        "≥": r"$\geq$",
        "<": r"$<$",
        ">": r"$>$",
    }
)


def frame_of(columns: Mapping[str, Sequence[Any]], library: Library | None = None) -> Any:
    """A frame with these columns.

    `library`: None for the first of pandas, Polars and pyarrow that the program has imported, else
    that is installed.

    Raises:
        MissingExtraError: the library, or none of them, is installed.
    """
    imported_already = [name for name in _LIBRARIES if name in sys.modules]
    libraries = [library] if library else [*imported_already, *_LIBRARIES]
    failure: MissingExtraError | None = None
    for name in libraries:
        try:
            module = import_extra(name, "a frame", "spark" if name == "pandas" else "tables")
        except MissingExtraError as error:
            failure = error  # the last one needs least
            continue
        if name == "pandas":
            columns = {
                column_name: _of_pandas(module, values) for column_name, values in columns.items()
            }
        return (module.table if name == "pyarrow" else module.DataFrame)(dict(columns))
    raise failure or AssertionError


def _of_pandas(pandas: Any, values: Sequence[Any]) -> Any:
    """A column whose missing numbers are NaN, or NA among integers, which stay integers."""
    present = [value for value in values if value is not None]
    if len(present) == len(values) or not all(isinstance(value, float | int) for value in present):
        return values
    if present and all(isinstance(value, int) and abs(value) < 1 << 63 for value in present):
        return pandas.array(list(values), dtype="Int64")
    return [math.nan if value is None else value for value in values]


def html_of(table: TextTable[Any], caption: str) -> str:
    """A table of texts in HTML.

    Example:
        >>> from streameval.inference.text_table import TextColumn
        >>> html_of(TextTable([TextColumn("metric", str)], ["a<b"]), "1 list")[-47:]
        '<tbody><tr><td>a&lt;b</td></tr></tbody></table>'
    """
    head, *body = (
        f"<tr>{''.join(f'<{kind}>{in_text(cell)}</{kind}>' for cell in row)}</tr>"
        for kind, row in [("th", table.names), *(("td", texts) for texts in table.texts)]
    )
    heading = f"<caption>{in_text(caption)}</caption><thead>{head}</thead>"
    return f"<table>{heading}<tbody>{''.join(body)}</tbody></table>"


def latex_of(table: TextTable[Any]) -> str:
    r"""A `tabular` of texts in LaTeX, which needs no package.

    Example:
        >>> from streameval.inference.text_table import TextColumn
        >>> columns = [TextColumn("metric", str), TextColumn("name", str.upper)]
        >>> print(latex_of(TextTable(columns, ["hit_rate@10"])))
        \begin{tabular}{ll}
        \hline
        metric & name \\
        \hline
        hit\_rate@10 & HIT\_RATE@10 \\
        \hline
        \end{tabular}
    """
    lines = [
        " & ".join(cell.translate(_LATEX) for cell in row) for row in (table.names, *table.texts)
    ]
    head, *body = (f"{line} \\\\" for line in lines)
    parts = [f"\\begin{{tabular}}{{{'l' * len(table.columns)}}}", "\\hline", head, "\\hline", *body]
    return "\n".join([*parts, "\\hline", "\\end{tabular}"])


def aligned_text(table: TextTable[Any]) -> str:
    """A table of texts with aligned columns."""
    rows = [table.names, *table.texts]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)
