"""The pages that are made here: configuration, command line, tables of migration."""

from __future__ import annotations

from pathlib import Path

from tests.docs import command_line, configuration, migration
from tests.house.checkout import ROOT

REFERENCE = ROOT / "docs" / "reference"
MIGRATE = ROOT / "docs" / "how-to" / "migrate.md"


def pages() -> dict[Path, str]:
    """Every page with its text, as the code is now."""
    return {
        REFERENCE / "configuration.md": configuration.page(),
        REFERENCE / "command-line.md": command_line.page(),
        MIGRATE: migration.with_tables(MIGRATE.read_text(encoding="utf-8")),
    }


def lagging() -> dict[Path, str]:
    """Those whose files say something else, or are missing."""
    return {
        path: text
        for path, text in pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }
