"""What an analysis of files is asked for: what was given, how it is read, and what is decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from streameval.evaluation.options import Options
from streameval.evaluation.sources import Given


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
    """The options without those that were left out: None, empty or False; the number 0 is given."""
    return {name: value for name, value in options.items() if value or type(value) is int}
