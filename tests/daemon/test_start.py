"""What a daemon does before it counts."""

from __future__ import annotations

import faulthandler
import gc
from pathlib import Path

import pytest

from streameval.cli import run


def test_what_was_imported_is_kept_out_of_full_collections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[int] = []

    class Started:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def run(self, until: object) -> bool:  # noqa: ARG002  a daemon takes it
            frozen.append(gc.get_freeze_count())
            return False

    config = tmp_path / "streameval.toml"
    config.write_text('metrics = ["ndcg@10"]\n[source]\ntype = "simulator"\n')
    monkeypatch.setattr(run, "Daemon", Started)
    monkeypatch.setattr(run, "configure", lambda _: None)
    monkeypatch.setattr(faulthandler, "enable", lambda **_: None)
    try:
        run.run(config)
    finally:
        gc.unfreeze()
    assert frozen[0] > len(gc.get_objects()) / 2
