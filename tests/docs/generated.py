"""The files and parts of pages that are generated from the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tests.docs import command_line, configuration, metrics, monitoring, tables
from tests.house.checkout import ROOT

REFERENCE = ROOT / "docs" / "reference"
MIGRATE = ROOT / "docs" / "how-to" / "migrate.md"
_PARTS: Mapping[Path, Callable[[str], str]] = {
    MIGRATE: tables.with_names,
    REFERENCE / "prometheus.md": tables.with_families,
    ROOT / "docs" / "how-to" / "dead-letters.md": tables.with_reasons,
}


@cache
def files() -> dict[Path, str]:
    """Path -> current text of every generated file."""
    return {
        REFERENCE / "configuration.md": configuration.page(),
        REFERENCE / "command-line.md": command_line.page(),
        **monitoring.files(),
        **metrics.pages(),
        **{path: renewed(path.read_text(encoding="utf-8")) for path, renewed in _PARTS.items()},
    }


def lagging() -> dict[Path, str]:
    """Path -> text of every missing or outdated file; "" for a file to delete."""
    there = {*metrics.FOLDER.glob("*.md")}
    late = {
        path: text
        for path, text in files().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
    return late | dict.fromkeys(there - set(files()), "")
