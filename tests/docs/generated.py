"""The pages, and parts of pages, that are made here from the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs import command_line, configuration, migration, tables
from tests.house.checkout import ROOT

REFERENCE = ROOT / "docs" / "reference"
MIGRATE = ROOT / "docs" / "how-to" / "migrate.md"
_PARTS: Mapping[Path, Callable[[str], str]] = {
    MIGRATE: migration.with_tables,
    REFERENCE / "prometheus.md": tables.with_pipeline,
    ROOT / "docs" / "how-to" / "dead-letters.md": tables.with_reasons,
}


def pages() -> dict[Path, str]:
    """Every page with its text, as the code is now."""
    return {
        REFERENCE / "configuration.md": configuration.page(),
        REFERENCE / "command-line.md": command_line.page(),
        **{path: renewed(path.read_text(encoding="utf-8")) for path, renewed in _PARTS.items()},
    }


def lagging() -> dict[Path, str]:
    """Those whose files say something else, or are missing."""
    return {
        path: text
        for path, text in pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
