"""Which form the files of `streameval evaluate` have, and the one way to each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from streameval.cli.ending import WrongCallError
from streameval.cli.evaluation import Asked, configured, evaluated
from streameval.cli.tables import Form, Pair, evaluated_pair, evaluated_tables
from streameval.config import load
from streameval.sources.options import FilesOptions
from streameval.tables.joining import Ties
from streameval.tables.reading import is_table
from streameval.tables.rows import Names


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be evaluated.

    Attributes:
        paths: files of events.
        recommendations: or a file of rows, to be joined with the truth.
        truth: the other file of rows.
        form: what those two look like.
        ties: which of two items with one score stands first.
        names: their columns.
        separator: between the ids of a list that is text.
    """

    paths: Sequence[str]
    recommendations: str | None
    truth: str | None
    form: Form
    ties: Ties | None
    names: Names
    separator: str | None


def evaluated_files(files: Files, asked: Asked, written_as: str) -> None:
    """Evaluate the files and write the readings.

    Raises:
        WrongCallError: the options contradict each other, or a file cannot be read.
        ConfigError: what is asked for does not fit together.
        MetricError: a metric cannot be understood.
        SourceError: a file is damaged.
        MissingExtraError: the files are tables, and pyarrow is not installed.
    """
    if asked.every is not None and _are_tables(files):
        raise WrongCallError("--every reads event time from JSON lines, and tables have none.")
    if files.recommendations is not None or files.truth is not None:
        _of_pair(files, asked, written_as)
    elif not files.paths and not _names_files(asked.config):
        both = "--recommendations with --truth"
        raise WrongCallError(
            f"missing argument 'PATH...', or {both}; see `streameval evaluate -h`."
        )
    elif any(map(is_table, files.paths)):
        _refuse_mixture(files.paths)
        config = configured(FilesOptions(paths=list(files.paths)), asked)
        if config.attribution is not None:
            raise WrongCallError("[attribution] joins streams of JSON lines, and these are tables.")
        evaluated_tables(files.paths, config, files.separator, written_as)
    else:
        evaluated(files.paths, asked, written_as)


def _names_files(config: str | None) -> bool:
    """Whether a configuration says itself which files it reads."""
    return config is not None and isinstance(load(config).source, FilesOptions)


def _are_tables(files: Files) -> bool:
    pair = files.recommendations is not None or files.truth is not None
    return pair or any(map(is_table, files.paths))


def _of_pair(files: Files, asked: Asked, written_as: str) -> None:
    if files.recommendations is None or files.truth is None:
        raise WrongCallError("--recommendations and --truth belong together; give both.")
    if files.paths:
        both = "--recommendations with --truth"
        raise WrongCallError(f"found {files.paths[0]!r} beside {both}; give one or the other.")
    pair = Pair(
        recommendations=files.recommendations,
        truth=files.truth,
        names=files.names,
        form=files.form,
        ties=files.ties,
    )
    config = configured(FilesOptions(paths=[pair.recommendations, pair.truth]), asked)
    evaluated_pair(pair, config, written_as)


def _refuse_mixture(paths: Sequence[str]) -> None:
    others = [path for path in paths if not is_table(path)]
    if others:
        raise WrongCallError(f"{others[0]} is no table, and others are; evaluate them apart.")
