"""`streameval run`: runs the daemon on a configuration."""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Protocol, TypeAlias

import msgspec
from typer import Argument, Exit, Option

from streameval.cli.check import configuration_lines
from streameval.config import Config, load
from streameval.config.web_file import web_security
from streameval.daemon import Daemon, StopSignal, configure, emit
from streameval.daemon.assembly import dead_letter_topics
from streameval.daemon.log import level_of
from streameval.engine.dead_letters import describe_with_line
from streameval.evaluation.shell.exits import (
    FAILED,
    config_errors_in,
    out_of_memory,
    status_of,
)
from streameval.evaluation.shell.flags import with_struct_options
from streameval.events.errors import (
    ConfigError,
    OwnAnalysisError,
    OwnMetricError,
    OwnStatisticError,
    StreamevalError,
)
from streameval.events.out_of_memory import is_out_of_memory
from streameval.events.previews import describe_traceback

ConfigPath: TypeAlias = Annotated[
    Path, Argument(metavar="CONFIG", help="A TOML file; see `check`.")
]


_OWN: Final = (OwnAnalysisError, OwnMetricError, OwnStatisticError)
"""Errors whose cause is an exception of a function of the user's, at which the traceback points."""

_OPTIONS: Final = {"listen": "--listen", "config_file": "--web.config.file"}
"""Key of [web] -> its option, unless that has the name of the key."""


class WebFlags(msgspec.Struct, frozen=True, kw_only=True):
    """Options that override keys of [web] in the file; each has the name of its key."""

    listen: Annotated[
        list[str] | None,
        Option(
            "--listen",
            "--web.listen-address",
            metavar="HOST:PORT",
            help="Address to serve on; may be repeated.",
        ),
    ] = None
    config_file: Annotated[
        str | None,
        Option(
            "--web.config.file",
            metavar="FILE",
            help="File with TLS and users; see docs/how-to/web.md.",
        ),
    ] = None
    route_prefix: Annotated[
        str | None, Option("--web.route-prefix", metavar="PATH", help="Prefix of all HTTP paths.")
    ] = None

    def load(self, path: Path) -> Config:
        """The configuration in a file, with these options."""
        options = msgspec.structs.asdict(self)
        overrides = {key: value for key, value in options.items() if value not in (None, [])}

        def override(config: Config) -> Config:
            try:
                web = msgspec.structs.replace(config.web, **overrides)
            except ConfigError as error:
                option = _OPTIONS.get(error.key, f"--web.{error.key.replace('_', '-')}")
                raise ConfigError("the command line", option, error.problem) from None
            return msgspec.structs.replace(config, web=web)

        settings = load(path, override)
        web_security(settings.web)
        return settings


@with_struct_options
def run(config: ConfigPath, *, web: WebFlags) -> None:
    """Run the daemon: read the source, count, and serve the values over HTTP.

    ```
    streameval run streameval.toml
    ```

    It serves a page at /, /metrics for Prometheus, /api/v1/metrics (JSON), /-/healthy and /-/ready.
    Logs go to standard error, on a terminal after the summary of `check`; the full configuration
    is logged at level debug. SIGTERM or Ctrl-C stops it gracefully, with status 0, or 1 if the
    last checkpoint cannot be written. A second signal stops it immediately. The daemon keeps
    serving after the end of its files.

    With [state], each start resumes from the newest checkpoint, and every record counts once in
    windows and lifetime; Prometheus counters begin at 0. Without it, metrics reset on restart.

    To change the configuration, restart; `check --connect` says in advance whether it would start.

    ```
    streameval run streameval.toml --listen 0.0.0.0:9877 --web.config.file web.yml
    ```

    These options override [web] in the file.
    """

    def daemon(settings: Config) -> Daemon:
        if sys.stderr.isatty():
            sys.stderr.write(configuration_lines(config, settings, dead_letter_topics(settings)))
        return Daemon(settings, os.environ)

    settings = web.load(config)
    resumes = "starts from zero, without [state]" if settings.state is None else "resumes here"
    run_until_signal(config, settings, daemon, next_start=resumes)


class Process(Protocol):
    """A process that runs until it is stopped."""

    def run(self, until: Callable[[], bool]) -> None:
        """Run; `until`: whether to stop."""


def run_until_signal(
    path: Path, settings: Config, process: Callable[[Config], Process], **stopped: str
) -> None:
    """Run a process with this configuration; `stopped`: fields of its last line in the log."""
    configure(level_of(settings.log.level))
    # A watchdog kills a stuck daemon with SIGABRT; the traceback in the log shows where. Threads
    # that still run can crash the dump, so only the thread of the signal is dumped.
    faulthandler.enable(all_threads=False)
    try:
        with config_errors_in(path):
            made = process(settings)
        with StopSignal().on_signals() as stop:
            made.run(until=stop)
    except StreamevalError as error:
        own = isinstance(error, _OWN) and error.__cause__
        traceback = describe_traceback(error.__cause__) if own else None
        emit(logging.ERROR, "failed", error=error, traceback=traceback)
        raise Exit(status_of(error)) from error
    except Exception as error:
        emit(logging.ERROR, "failed", **_unexpected_fields(error))
        raise Exit(FAILED) from error
    emit(logging.INFO, "stopped", signal=stop.signal, **stopped)


def _unexpected_fields(error: Exception) -> Mapping[str, str]:
    """The fields of the log for an error that no input explains."""
    if is_out_of_memory(error):
        return {"error": out_of_memory(error)}
    return {
        "error": f"{describe_with_line(error)}: unexpected; please report this line.",
        "traceback": describe_traceback(error),
    }
