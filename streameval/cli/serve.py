"""`streameval serve`: serves the values of all replicas from the store that they share."""

from __future__ import annotations

import os

from streameval.cli.run import ConfigPath, WebFlags, run_until_signal
from streameval.daemon.serving import StoreServer
from streameval.evaluation.shell.options import with_fields
from streameval.events.errors import ConfigError


@with_fields
def serve(config: ConfigPath, *, web: WebFlags) -> None:
    """Serve the values of all replicas: read the store that they share, and count nothing.

    ```
    streameval serve streameval.toml
    ```

    The configuration is that of the replicas, with [state]. Page, API and gauges have the values
    of one daemon that had counted each partition up to its newest checkpoint, with verdicts, and
    say for each partition how old that is. The store is only read; Kafka is only asked for the ends
    of the logs. Counters stay with the replicas.

    ```
    streameval serve streameval.toml --listen 0.0.0.0:9878
    ```

    These options override [web] in the file.
    """
    settings = web.load(config)
    state = settings.state
    if state is None:
        problem = "it is missing; serve reads the store that [state] path names."
        raise ConfigError(str(config), "state", problem)
    run_until_signal(config, settings, lambda read: StoreServer(read, state, os.environ))
