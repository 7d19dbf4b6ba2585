"""`python -m tests.browser` renews docs/page.png: the page of `streameval demo`."""

from __future__ import annotations

import os
import shutil
import threading

from playwright.sync_api import sync_playwright

from streameval.cli.demo import demo_config
from streameval.daemon import Daemon
from streameval.sources.settings import SimulatorOptions
from tests.house.checkout import ROOT

_SIZE = {"width": 1280, "height": 800}
_SETTLED = 60_000
"""Events: ten minutes of simulated time."""


def main() -> None:
    """Run a daemon, wait until there is something to see, and take the picture."""
    config = demo_config(SimulatorOptions(seed=7, events_per_second=1_000), "127.0.0.1:0")
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
    read = "document.querySelector('#health .totals dd').textContent.replaceAll(',', '')"
    with sync_playwright() as playwright:
        there = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = there.new_page(viewport=_SIZE)  # type: ignore[arg-type]  # a size
        page.goto(address)
        page.wait_for_function(f"() => Number({read}) > {_SETTLED}", timeout=60_000)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=ROOT / "docs" / "page.png")
        there.close()


if __name__ == "__main__":
    main()
