from __future__ import annotations

from pathlib import Path

import pytest

from streameval.testing.broker import Broker
from tests.chaos.check import Faults
from tests.chaos.stage import FAILURES, Stage

pytestmark = [pytest.mark.nightly, pytest.mark.kafka, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    ("mistake", "said"),
    [("commit before save", "committed"), ("publish before save", "counters are wrong")],
)
def test_a_broken_protocol_is_detected(
    mistake: str, said: str, broker: Broker, tmp_path: Path
) -> None:
    stage = Stage(broker=broker, folder=tmp_path, seed=3)
    try:
        with stage.open:
            found = _killed_with_a_full_disk(stage, mistake)
    except FAILURES as error:
        found = [*stage.found, str(error)]
    assert said in " ".join(found)


def _killed_with_a_full_disk(stage: Stage, mistake: str) -> Faults:
    """What no checkpoint covers when a process dies is where a mistake would show."""
    setting = stage.setting(member="one")
    writer = stage.writer(setting)
    flag = setting.folder / "disk-full"
    writer.write(400)
    with stage.daemon(setting, f"disk-full+{mistake}") as daemon:
        stage.settled(setting, daemon)
        flag.touch()
        writer.write(400)
        # Each of the four partitions twice: what is shown after the first is scraped then.
        daemon.until(lambda: daemon.failures() >= 8)
        daemon.kill()
    stage.look(setting)
    flag.unlink()
    return stage.finished(setting, writer, trick=mistake)
