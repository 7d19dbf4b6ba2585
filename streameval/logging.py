"""The package's log: silent in somebody's program until they listen.

Everything is logged below the name "streameval": a program that configures `logging` sees it like
the logs of its other libraries, and one that does not sees nothing, warnings included.
"""

from __future__ import annotations

import logging
from typing import Final

NAME: Final = "streameval"
"""Of the logger that all others of the package are below."""


def quiet() -> None:
    """Keep Python from printing what nobody listens to; called once, on import.

    Example:
        >>> quiet()
        >>> [type(each).__name__ for each in logging.getLogger("streameval").handlers]
        ['NullHandler']
    """
    log = logging.getLogger(NAME)
    if not any(isinstance(each, logging.NullHandler) for each in log.handlers):
        log.addHandler(logging.NullHandler())
