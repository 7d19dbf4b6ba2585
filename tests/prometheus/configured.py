"""Three configurations, and the rules that `streameval rules` makes of them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

from streameval.cli.app import status

FOLDER = Path(__file__).parent / "configurations"
RUNBOOK = "docs/runbook.md"
OPTIONS: Mapping[str, Sequence[str]] = {
    "plain": ("--below", "ctr=0.02", "--above", "mae=1.5"),
    "experiment": (),
    "join": (
        *("--below", "ndcg@10=0.2", "--for", "1h", "--support", "500"),
        *("--objective", "valid=99.5%", "--objective", "fresh=0.999", "--objective", "lag:10m=99%"),
    ),
}
"""Name of a configuration -> the options of its rules."""


@cache
def rules_text(name: str, job: str | None = None) -> str:
    """The rules of one of the configurations, for one scrape job or all."""
    chosen = [] if job is None else ["--job", job]
    path = str(FOLDER / f"{name}.toml")
    text = io.StringIO()
    with redirect_stdout(text):
        assert status(["rules", path, *OPTIONS[name], *chosen, "--runbook", RUNBOOK]) == 0
    return text.getvalue()


def write_dashboards(name: str, folder: Path) -> list[Path]:
    """The files that `streameval dashboards` makes of a configuration."""
    output = io.StringIO()
    path = str(FOLDER / f"{name}.toml")
    with redirect_stdout(output):
        assert status(["dashboards", path, "-o", str(folder), "--runbook", RUNBOOK]) == 0
    return [*map(Path, output.getvalue().splitlines())]
