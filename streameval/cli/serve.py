"""`streameval serve`: serves the values that replicas or engines have stored."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from streameval.cli.run import ConfigPath, WebFlags, run_until_signal
from streameval.config import Config
from streameval.config.tables import StateOptions
from streameval.daemon.serving import StoreServer, state_reader
from streameval.engine.windows.times import SECOND, duration_of
from streameval.evaluation.partials_reader import PartialsReader
from streameval.evaluation.shell.flags import with_struct_options
from streameval.events.errors import ConfigError
from streameval.sources.kinds import partials_in

_LOOK: Final = 10.0
"""Twice the seconds between two listings of a folder of partials."""


@with_struct_options
def serve(config: ConfigPath, *, web: WebFlags) -> None:
    """Serve the values that replicas or engines have stored, and count nothing.

    ```
    streameval serve streameval.toml
    ```

    Use the configuration of the replicas, with [state]. Page, API and gauges have the values and
    verdicts of one daemon that had counted each partition up to its newest checkpoint, and the age
    of each checkpoint. The command only reads the store, and asks Kafka only for the ends of the
    logs. Counters stay with the replicas.

    With `source = { type = "partials", path = "s3://bucket/rows" }` the values are those of all
    rows of `streameval.partials` that Spark, Beam or another engine wrote there. Files add up, a
    rewritten file replaces its rows, and only the last complete folder `run=ID` counts.

    ```
    streameval serve streameval.toml --listen 0.0.0.0:9878
    ```

    These options override [web] in the file.
    """
    settings = web.load(config)
    state, partials = settings.state, partials_in(settings.source)
    if partials is not None:
        run_until_signal(config, settings, lambda read: _of_partials(read, partials))
        return
    if state is None:
        problem = "it is missing; serve reads the store that [state] path names."
        raise ConfigError(str(config), "state", problem)
    run_until_signal(config, settings, lambda read: _of_replicas(read, state))


def _of_replicas(config: Config, state: StateOptions) -> StoreServer:
    interval = duration_of(state.interval) / SECOND
    reader = partial(state_reader, config, state)
    return StoreServer(config, state.path, interval, reader, os.environ)


def _of_partials(config: Config, path: str) -> StoreServer:
    return StoreServer(config, path, _LOOK, lambda _: PartialsReader(path, config), os.environ)
