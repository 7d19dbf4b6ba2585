"""What an analysis of files is asked for: what was given, how it is read, and what is decided."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from streameval.evaluation.files import is_table
from streameval.evaluation.options import InputError, Options, Setting
from streameval.evaluation.sources import Given
from streameval.events.errors import UsageError


class Request(NamedTuple):
    """What was given, and how it is counted.

    Attributes:
        given: files, frames or stores of checkpoints.
        options: how they are read and split.
        added: metrics besides those of the options, which an experiment names.
    """

    given: Given
    options: Options
    added: Sequence[str] = ()

    @property
    def files(self) -> Sequence[str]:
        """The names of all files and frames."""
        return self.given.names

    def with_options(self, **changes: Any) -> Request:
        """The request with other options."""
        return self._replace(options=msgspec.structs.replace(self.options, **changes))


def given_options(**options: object) -> dict[str, Any]:
    """The options without those that were left out: None, empty or False."""
    return {name: value for name, value in options.items() if value}


def named_paths(texts: Sequence[str]) -> dict[str, str]:
    """Variant -> file of each --recommendations, which is NAME=PATH or a path.

    Raises:
        UsageError: two have one name, or there is one alone.
    """
    models: dict[str, str] = {}
    for text in texts:
        name, path = _named_path(text)
        if name in models:
            raise UsageError(
                f"--recommendations: {models[name]} and {path} are both {name!r}; name one, like "
                f"--recommendations other={path}."
            )
        models[name] = path
    if len(models) == 1:
        raise UsageError(
            f"--recommendations: only {texts[0]!r}; give a file for each model to compare, the "
            "control first."
        )
    return models


def _named_path(text: str) -> tuple[str, str]:
    """A path with the name before its equal sign, else with the name of the file.

    >>> _named_path("new=runs/1.parquet"), _named_path("runs/old.csv.gz")
    (('new', 'runs/1.parquet'), ('old', 'runs/old.csv.gz'))
    """
    name, given, path = text.partition("=")
    # A folder of a data lake is called like day=2026-03-01.
    if given and "/" not in name and not Path(text).exists():
        if not name or not path:
            raise UsageError(f"--recommendations: found {text!r}; give NAME=PATH or a path.")
        return name, path
    file = Path(text).name.removesuffix(".gz").removesuffix(".zst")
    return Path(file).stem if is_table(text) else file, text


def refuse_of_events(name: str) -> InputError:
    """The error for an option of events that models of one truth do not have."""
    return InputError(
        Setting(name),
        " is for events; with ",
        Setting("recommendations"),
        " and ",
        Setting("truth"),
        " every user meets every model, once. Leave it out.",
    )
