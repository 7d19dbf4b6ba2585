"""`streameval run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option


def run(
    config: Annotated[Path, Argument(metavar="CONFIG", help="A TOML file; see `check`.")],
    *,
    listen: Annotated[
        list[str] | None,
        Option(
            "--web.listen",
            "--web.listen-address",
            metavar="HOST:PORT",
            help="Where to serve; may be given several times.",
        ),
    ] = None,
    web_config: Annotated[
        Path | None,
        Option("--web.config.file", metavar="FILE", help="TLS and users; see docs/web.md."),
    ] = None,
    route_prefix: Annotated[
        str | None,
        Option("--web.route-prefix", metavar="PATH", help="What all paths begin with."),
    ] = None,
    enable_lifecycle: Annotated[
        bool, Option("--web.enable-lifecycle", help="Let POST /-/reload reload, as SIGHUP does.")
    ] = False,
) -> None:
    """Run the daemon: read the source, count, and serve the values over HTTP.

    ```
    streameval run streameval.toml
    ```

    Serves a page at /, /metrics for Prometheus, /api/v1/metrics (JSON), /-/healthy and /-/ready.
    Logs go to standard error. SIGTERM or Ctrl-C ends it in order, with status 0, or 1 where the
    last checkpoint could not be written; a second one at once. When a source of files is at its
    end, the daemon goes on serving what it read.

    With [state], values outlive the process: each start goes on where the newest checkpoint ends,
    and a record counts once, whatever happened in between. Without it they are since start.

    SIGHUP reloads: the daemon checks the file as it is now, writes a checkpoint and starts again
    under it. A file that cannot be used is refused, and the old one stays in force.

    ```
    streameval run streameval.toml --web.listen 0.0.0.0:9877 --web.config.file web.yml
    ```

    Options of the web stand above [web] of the file.
    """
    from streameval.cli.running import serve  # noqa: PLC0415  only where used

    said = {"listen": listen or None, "config_file": web_config, "route_prefix": route_prefix}
    serve(config, said, lifecycle=enable_lifecycle)
