from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from streameval.testing.broker import Broker
from tests.chaos.check import Problems
from tests.chaos.faulty_daemon import POINTS
from tests.chaos.proxy import proxied_broker
from tests.chaos.run import ERRORS, ScenarioRun
from tests.chaos.scenarios import IN_FOLDER, ON_OWN_BROKER, ON_S3, run_scenario
from tests.effort import thorough

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

_SEED = 5
_QUICK = ("points", "move")
"""A killed daemon, and a rebalance; all other scenarios are nightly."""

_POINTS = ("before-rename", "before-commit")
"""Kill points in `tests/run`: between counting and saving, and between saving and commit."""

_AT_ONCE = 3
"""Scenarios mostly wait; each has its own topic, group and folder."""

_ON_S3, _THROUGH_CONFLUENT = " on S3", " through confluent"
_CASES = (
    *IN_FOLDER,
    *(f"{name}{_ON_S3}" for name in ON_S3),
    *(f"{name}{_THROUGH_CONFLUENT}" for name in IN_FOLDER),
)

Verdicts = Mapping[str, "Future[Problems]"]


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest,
    _session_broker: Broker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Verdicts]:
    """Name -> problems of the selected scenarios, which run concurrently."""
    selected = {
        item.callspec.params.get("scenario")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    _session_broker.start()
    folders = {
        name: tmp_path_factory.mktemp(name.replace(" ", "-")) for name in _CASES if name in selected
    }
    with ExitStack() as stack:
        smooth = stack.enter_context(ThreadPoolExecutor(_AT_ONCE))
        alone = stack.enter_context(ThreadPoolExecutor(1))

        def on_session_broker(name: str) -> Problems:
            return run_scenario(
                _scenario(name), _scenario_run(_session_broker, folders[name], name)
            )

        def on_own_broker(name: str) -> Problems:
            with proxied_broker() as (broker, proxy):
                run = _scenario_run(broker, folders[name], name)
                run.proxy = proxy
                return run_scenario(_scenario(name), run)

        yield {
            name: alone.submit(on_own_broker, name)
            if _scenario(name) in ON_OWN_BROKER
            else smooth.submit(on_session_broker, name)
            for name in folders
        }
        for pool in (smooth, alone):
            pool.shutdown(cancel_futures=True)


def _scenario(case: str) -> str:
    return case.removesuffix(_ON_S3).removesuffix(_THROUGH_CONFLUENT)


def _scenario_run(broker: Broker, folder: Path, case: str) -> ScenarioRun:
    return ScenarioRun(
        broker=broker,
        folder=folder,
        seed=_SEED,
        client="confluent" if case.endswith(_THROUGH_CONFLUENT) else "kafka-python",
        on_s3=case.endswith(_ON_S3),
        points=tuple(POINTS) if thorough() else _POINTS,
    )


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            name,
            marks=[] if name in _QUICK else [pytest.mark.nightly, pytest.mark.timeout(3_600)],
        )
        for name in _CASES
    ],
)
def test_the_state_is_the_count_of_the_log_after_every_fault(
    scenario: str, verdicts: Verdicts
) -> None:
    assert verdicts[scenario].result() == []


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
