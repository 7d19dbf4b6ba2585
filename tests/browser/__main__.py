"""`python -m tests.browser` renews docs/page.png: the page of a daemon on simulated traffic."""

from __future__ import annotations

import os
import shutil
import threading

from playwright.sync_api import sync_playwright

from streameval.config import Config, WebOptions
from streameval.config.options import WindowsOptions
from streameval.daemon import Daemon
from streameval.decoding.fields import EventFields
from streameval.sources.options import SimulatorOptions
from tests.house.checkout import ROOT

_METRICS = ["ndcg@10", "hit_rate@10", "ctr", "item_coverage@10"]
_SIZE = {"width": 1280, "height": 1000}
_SETTLED = 240_000
"""Events: forty minutes of simulated time."""


def main() -> None:
    """Run a daemon, wait until there is something to see, and take the picture."""
    config = Config(
        metrics=_METRICS,
        labels=["variant"],
        segments=["country"],
        catalog=1200,
        windows=WindowsOptions(spans=["5m", "15m", "1h"], lateness="1m"),
        event=EventFields(time="ts", time_unit="iso8601"),
        source=SimulatorOptions(seed=7, events_per_second=8_000),
        web=WebOptions(listen="127.0.0.1:0"),
    )
    daemon, stop = Daemon(config, {}), threading.Event()
    running = threading.Thread(target=daemon.run, args=(stop.is_set,))
    running.start()
    try:
        _picture(daemon.address)
    finally:
        stop.set()
        running.join()


def _picture(address: str) -> None:
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    read = "document.querySelector('.totals dd').textContent.replaceAll(',', '')"
    with sync_playwright() as playwright:
        there = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = there.new_page(viewport=_SIZE)  # type: ignore[arg-type]  # a size
        page.goto(address)
        page.wait_for_function(f"() => Number({read}) > {_SETTLED}", timeout=300_000)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=ROOT / "docs" / "page.png")
        there.close()


if __name__ == "__main__":
    main()
