"""Reads the configuration anew when somebody wishes it."""

from __future__ import annotations

from collections.abc import Callable

from streameval.config import Config
from streameval.daemon.assembly import Assembly
from streameval.daemon.replacing import replaced
from streameval.daemon.wishes import Wishes


class Reloading:
    """Puts a configuration that was changed in place of the one in force.

    Args:
        reread: reads it anew.

    Attributes:
        wishes: from a signal, or from the web.
    """

    def __init__(self, reread: Callable[[], Config]) -> None:
        self.wishes = Wishes()
        self._reread = reread

    def apply(self, parts: Assembly) -> Assembly:
        """The parts under the configuration as it is written now.

        Raises:
            StreamevalError: it cannot be used; the parts given go on as they are.
        """
        return replaced(parts, self._reread())
