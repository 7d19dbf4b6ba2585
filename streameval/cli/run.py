"""`streameval run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument


def run(
    config: Annotated[Path, Argument(metavar="CONFIG", help="A TOML file; see `check`.")],
) -> None:
    """Run the daemon: read the source, count, and serve the values over HTTP.

    ```
    streameval run streameval.toml
    ```

    Serves a page at /, /metrics for Prometheus, /api/v1/metrics (JSON), /-/healthy and /-/ready.
    Logs go to standard error. SIGTERM or Ctrl-C ends it in order, with status 0; a second one at
    once. When a source of files is at its end, the daemon goes on serving what it read.

    Values are since start: state is not kept over a restart yet, and nothing is committed to Kafka.
    """
    from streameval.cli.running import serve  # noqa: PLC0415  only where used

    serve(config)
