"""`python -m tests.grafana --write` writes the dashboards; without it, says which lag behind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from tests.grafana import boards
from tests.house.checkout import ROOT

FOLDER = ROOT / "deploy" / "grafana"


def main() -> int:
    """Write the dashboards, or list those that are not as the code says."""
    wanted = dashboards()
    late = [path for path, text in wanted.items() if not _is(path, text)]
    print("\n".join(path.name for path in late) or "all are as the code")
    if "--write" in sys.argv[1:]:
        for path in late:
            path.write_text(wanted[path], encoding="utf-8")
        return 0
    return bool(late)


def dashboards() -> dict[Path, str]:
    """Every dashboard's file with its text."""
    return {FOLDER / f"{name}.json": _written(board) for name, board in boards.dashboards().items()}


def _written(made: Dashboard) -> str:
    found: dict[str, Any] = json.loads(JSONEncoder().encode(made.build()))
    for number, panel in enumerate(found["panels"], 1):
        panel["id"] = number
    for annotation in found["annotations"]["list"]:
        # The kit knows no title of an annotation.
        annotation["titleFormat"] = "streameval {{version}}"
        annotation["textFormat"] = "{{job}} runs {{version}} now"
    return json.dumps(found, indent=2, sort_keys=True) + "\n"


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    raise SystemExit(main())
