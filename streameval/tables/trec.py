"""The two file formats of trec_eval: results of a run, and judgements (qrels)."""

from __future__ import annotations

import math
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np

from streameval.errors import SourceError
from streameval.sources.files import lines
from streameval.sources.opening import size
from streameval.tables.arrow import arrow
from streameval.tables.rows import Rows

File: TypeAlias = Literal["results", "qrels"]

_FORMATS: dict[File, str] = {
    "results": "qid Q0 docno rank score tag",
    "qrels": "qid 0 docno rel",
}


def is_trec(path: str, file: File) -> bool:
    """Whether the first line of a file looks like one of trec_eval's; never so of a pipe.

    Raises:
        SourceError: the file cannot be read.
    """
    if size(path) is None:
        return False
    first = next(islice(lines(path), 1), b"").decode("utf-8", "replace").split()
    width = len(_FORMATS[file].split())
    return len(first) == width and _number(first[_worth(file)]) is not None


def trec_rows(path: str, file: File) -> Rows:
    """The rows of a file; the number is the score of results, the rating of qrels.

    Raises:
        SourceError: it cannot be read, or a line does not follow the format.
        MissingExtraError: pyarrow is not installed.
    """
    width, at = len(_FORMATS[file].split()), _worth(file)
    users, items, worth = [], [], []
    for row, line in enumerate(lines(path), 1):
        fields = line.decode("utf-8", "surrogateescape").split()
        number = _number(fields[at]) if len(fields) == width else None
        if number is None:
            problem = f"row {row}: found {line[:60].decode('utf-8', 'replace')!r}"
            raise SourceError(path, problem, f"trec_eval's {file} are lines of: {_FORMATS[file]}")
        users.append(fields[0])
        items.append(fields[2])
        worth.append(number)
    text = arrow().large_string()
    return Rows(arrow().array(users, text), arrow().array(items, text), np.array(worth, np.float64))


def shared(results: Rows, qrels: Rows) -> tuple[Rows, Rows, int]:
    """The rows of topics that stand in both files, as trec_eval takes them.

    Returns:
        The rows of both files, and how many topics were left out.
    """
    compute = arrow("compute")
    topics = [set(rows.users.to_pylist()) for rows in (results, qrels)]
    both = arrow().array(sorted(topics[0] & topics[1]), arrow().large_string())
    kept = []
    for rows in (results, qrels):
        here = compute.is_in(rows.users, value_set=both)
        worth = (
            rows.worth if rows.worth is None else rows.worth[here.to_numpy(zero_copy_only=False)]
        )
        kept.append(Rows(rows.users.filter(here), rows.items.filter(here), worth))
    return kept[0], kept[1], len(topics[0] ^ topics[1])


def _worth(file: File) -> int:
    return 4 if file == "results" else 3


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
