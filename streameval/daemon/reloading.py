"""Reads the configuration anew when somebody wishes it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from streameval.config import Config
from streameval.config.web_file import protection
from streameval.daemon.assembly import Assembly
from streameval.daemon.log import level_of
from streameval.daemon.replacing import replaced
from streameval.daemon.wishes import Wishes
from streameval.exporters.web import Shield


class Reloading:
    """Puts a configuration that was changed in place of the one in force.

    Args:
        reread: reads it anew.
        shield: the certificates and users in force; they are read anew with it.

    Attributes:
        wishes: from a signal, or from the web.
    """

    def __init__(self, reread: Callable[[], Config], shield: Shield) -> None:
        self.wishes = Wishes()
        self._reread = reread
        self._shield = shield

    def apply(self, parts: Assembly) -> Assembly:
        """The parts under the configuration as it is written now.

        Raises:
            StreamevalError: it cannot be used; the parts given go on as they are.
        """
        config = self._reread()
        fresh = protection(config.web.config_file)
        self._shield.check(fresh)
        level = parts.config.log_level
        parts = replaced(parts, config)
        self._shield.use(fresh)
        if config.log_level != level:
            # Not before: a configuration that is refused changes nothing.
            logging.getLogger().setLevel(level_of(config.log_level))
        return parts
