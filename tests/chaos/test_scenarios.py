from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from streameval.testing.broker import Broker
from tests.chaos.check import Problems
from tests.chaos.faulty_daemon import POINTS, Point, method_of
from tests.chaos.proxy import Proxy, proxied_broker
from tests.chaos.run import ERRORS, ScenarioRun
from tests.chaos.scenarios import IN_FOLDER, ON_OWN_BROKER, ON_S3, run_scenario
from tests.effort import thorough

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

_SEED = 5
_QUICK = ("points", "move")
"""A killed daemon, and a rebalance; all other scenarios are nightly."""

_POINTS = ("before-rename", "before-commit")
"""Kill points in `tests/run`: between counting and saving, and between saving and commit."""

_ON_S3, _THROUGH_CONFLUENT = " on S3", " through confluent"
_CASES = (
    *IN_FOLDER,
    *(f"{name}{_ON_S3}" for name in ON_S3),
    *(f"{name}{_THROUGH_CONFLUENT}" for name in IN_FOLDER),
)


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_the_method_of_each_kill_point_exists(point: Point) -> None:
    assert callable(method_of(point)[1])


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            name,
            marks=[] if name in _QUICK else [pytest.mark.nightly, pytest.mark.timeout(3_600)],
        )
        for name in _CASES
    ],
)
def test_the_state_is_the_count_of_the_log_after_every_fault(
    case: str, broker: Broker, tmp_path: Path
) -> None:
    name = case.removesuffix(_ON_S3).removesuffix(_THROUGH_CONFLUENT)
    own: AbstractContextManager[tuple[Broker, Proxy | None]] = (
        proxied_broker() if name in ON_OWN_BROKER else nullcontext((broker, None))
    )
    with own as (of_the_run, proxy):
        run = ScenarioRun(
            broker=of_the_run,
            proxy=proxy,
            folder=tmp_path,
            seed=_SEED,
            client="confluent" if case.endswith(_THROUGH_CONFLUENT) else "kafka-python",
            on_s3=case.endswith(_ON_S3),
            points=tuple(POINTS) if thorough() else _POINTS,
        )
        assert run_scenario(name, run) == []


@pytest.mark.nightly
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
            problems = _killed_with_a_full_disk(run, mistake)
    except ERRORS as error:
        problems = [*run.problems, str(error)]
    assert problem in " ".join(problems)


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
