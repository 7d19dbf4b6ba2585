from __future__ import annotations

from pathlib import Path

import pytest

from streameval.testing.broker import Broker
from tests.chaos.check import Problems
from tests.chaos.run import ERRORS, ScenarioRun

pytestmark = [pytest.mark.nightly, pytest.mark.kafka, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("mistake", "problem"),
    [("commit before save", "committed"), ("publish before save", "counters are wrong")],
)
def test_a_broken_protocol_is_detected(
    mistake: str, problem: str, broker: Broker, tmp_path: Path
) -> None:
    run = ScenarioRun(broker=broker, folder=tmp_path, seed=3)
    try:
        with run.resources:
            found = _killed_with_a_full_disk(run, mistake)
    except ERRORS as error:
        found = [*run.problems, str(error)]
    assert problem in " ".join(found)


def _killed_with_a_full_disk(run: ScenarioRun, mistake: str) -> Problems:
    """Kill a process with unsaved counts, which a broken protocol loses or counts twice."""
    config = run.config(member="one")
    writer = run.writer(config)
    flag = config.folder / "disk-full"
    writer.write(400)
    with run.daemon(config, f"disk-full+{mistake}") as daemon:
        run.wait_until_saved(config, daemon)
        flag.touch()
        writer.write(400)
        # Two failures for each of four partitions: the scrape then shows the state after the first.
        daemon.wait_for(lambda: daemon.failures() >= 8)
        daemon.kill()
    run.check_progress(config)
    flag.unlink()
    return run.finish(config, writer, fault=mistake)
