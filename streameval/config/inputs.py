"""What metrics need besides the events, read from the files that the configuration names."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from streameval.context import Popularity, Similarity
from streameval.errors import MetricError, SourceError
from streameval.events import Id
from streameval.sources.files import lines

T = TypeVar("T")


class PopularityOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many users had to do with each item before.

    Attributes:
        path: a file of "item,count" lines; plain, .gz or .zst. A first line whose count is no
            number is taken for a header.
        users: users in all; by default the sum of the counts.
    """

    path: str
    users: Annotated[float, Meta(gt=0)] | None = None


class SimilarityOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How alike two items are; one of the two files.

    Attributes:
        vectors: a file of "item,x1,x2,..." lines; two items' similarity is the cosine.
        pairs: a file of "item,item,similarity" lines; pairs that are not there are 0.
    """

    vectors: str | None = None
    pairs: str | None = None


def popularity(options: PopularityOptions, as_id: Callable[[str], Id]) -> Popularity:
    """The popularity in a file.

    Raises:
        SourceError: the file cannot be read, or a line of it makes no sense.
    """
    rows = _rows(options.path, 2, lambda row: (as_id(row[0]), _number(row[1])))
    return Popularity(dict(rows), users=options.users)


def similarity(options: SimilarityOptions, as_id: Callable[[str], Id]) -> Similarity:
    """The similarity in a file.

    Raises:
        SourceError: the file cannot be read, or a line of it makes no sense.
        MetricError: not just one of vectors and pairs is given.
    """
    if (options.vectors is None) == (options.pairs is None):
        raise MetricError("similarity: give either vectors or pairs")
    if options.vectors is not None:
        found = list(_rows(options.vectors, 2, lambda row: (as_id(row[0]), _numbers(row[1:]))))
        return Similarity([item for item, _ in found], vectors=[vector for _, vector in found])
    pairs = _rows(str(options.pairs), 3, lambda row: (_pair(row, as_id), _number(row[2])))
    return Similarity.of_pairs(dict(pairs))


def _rows(path: str, columns: int, read: Callable[[list[str]], T]) -> Iterator[T]:
    for number, row in enumerate(csv.reader(line.decode() for line in lines(path)), 1):
        if not row:
            continue
        try:
            if len(row) < columns:
                problem = f"{len(row)} columns where {columns} are needed"
                raise ValueError(problem)  # noqa: TRY301  told with the line's number, like others
            yield read(row)
        except ValueError as error:
            if number > 1:
                raise SourceError(f"{path}:{number}", str(error), "mend the line") from None


def _pair(row: list[str], as_id: Callable[[str], Id]) -> tuple[Id, Id]:
    return as_id(row[0]), as_id(row[1])


def _numbers(texts: list[str]) -> list[float]:
    return [_number(text) for text in texts]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"{text!r} is no number"
        raise ValueError(message) from None
