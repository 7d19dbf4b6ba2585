"""The work of `streameval run`."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from typer import Exit

from streameval.cli.ending import reading, status_of
from streameval.config import Config, load
from streameval.config.web_checks import web_problems
from streameval.config.web_file import web_security
from streameval.daemon import Daemon, Stop, configure, emit, restart
from streameval.daemon.log import level_of
from streameval.errors import ConfigError, StreamevalError

_OPTIONS: Final = {"listen": "--web.listen", "route_prefix": "--web.route-prefix"}


def serve(path: Path, web: Mapping[str, object], *, lifecycle: bool) -> None:
    """Run the daemon until a signal asks it to stop; a reload starts the program again.

    Args:
        path: of the configuration.
        web: keys of [web] that are said on the command line; None where one is not.
        lifecycle: whether POST /-/reload is answered.

    Raises:
        ConfigError: the configuration does not say something that can be done.
        Exit: it failed while running; the log says why.
    """

    def read() -> Config:
        return load(path, lambda config: _with(config, web))

    config = read()
    web_security(config.web.config_file)
    configure(level_of(config.log_level))
    try:
        with reading(path):
            daemon = Daemon(config, os.environ, reread=read, lifecycle=lifecycle)
        with Stop().on_signals() as stop:
            reloads = daemon.run(until=stop)
    except StreamevalError as error:
        emit(logging.ERROR, "failed", error=error)
        raise Exit(status_of(error)) from error
    emit(logging.INFO, "stopped", signal=stop.signal)
    if reloads and stop.signal is None:
        restart()


def _with(config: Config, web: Mapping[str, object]) -> Config:
    said = {
        name: str(each) if isinstance(each, Path) else each
        for name, each in web.items()
        if each is not None
    }
    config = msgspec.structs.replace(config, web=msgspec.structs.replace(config.web, **said))
    for key, problem in web_problems(config):
        name = key.removeprefix("web.")
        if name in said:
            raise ConfigError("the command line", _OPTIONS[name], problem)
    return config
