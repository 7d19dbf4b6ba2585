"""`streameval dashboards`: writes the dashboards of a configuration for Grafana."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from streameval.config import load
from streameval.evaluation.shell.exits import output
from streameval.events.printable import printable
from streameval.monitoring.dashboards import dashboards_of
from streameval.monitoring.grafana import grafana_json


def dashboards(
    config: Annotated[Path, Argument(metavar="CONFIG", help="A TOML file.")],
    *,
    folder: Annotated[
        Path, Option("--output", "-o", metavar="DIR", help="Folder for the files; made if absent.")
    ],
    runbook: Annotated[
        str | None,
        Option(metavar="URL", help="Address of your copy of the runbook, for links in panels."),
    ] = None,
) -> None:
    """Write dashboards for Grafana, with the names of a configuration.

    ```
    streameval dashboards streameval.toml -o dashboards/
    ```

    They are for Grafana 11.6 or newer. Import the files, or provision their folder.
    """
    settings = load(config)
    made = [
        (f"{board.name}.json", grafana_json(board, runbook)) for board in dashboards_of(settings)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made:
        (folder / name).write_text(text, encoding="utf-8")
    with output():
        sys.stdout.write("".join(f"{printable(str(folder / name))}\n" for name, _ in made))
