from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from streameval.testing.broker import Broker
from tests.chaos.check import Faults
from tests.chaos.points import POINTS
from tests.chaos.proxy import rough_broker
from tests.chaos.scenarios import IN_FOLDER, ON_S3, ROUGH, played
from tests.chaos.stage import Stage
from tests.effort import thorough
from tests.stores import s3

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

_SEED = 5
_QUICK = ("points", "move")
"""A daemon that is killed, and members of a group; all other scenarios are nightly."""

_POINTS = ("before-rename", "before-commit")
"""Where it is killed in `tests/run`: between what was counted, saved and committed."""

_SOAK = 10.0
"""Minutes of it; `python -m tests.chaos soak --minutes 60` is the hour by hand."""

_AT_ONCE = 3
"""Scenarios mostly wait; each has a topic, a group and a folder of its own."""

_ON_S3, _THROUGH_CONFLUENT = " on S3", " through confluent"
_CASES = (
    *IN_FOLDER,
    *(f"{name}{_ON_S3}" for name in ON_S3),
    *(f"{name}{_THROUGH_CONFLUENT}" for name in IN_FOLDER),
)

Verdicts = Mapping[str, "Future[Faults]"]


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest,
    _session_broker: Broker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Verdicts]:
    """Of the scenarios that were asked for; they are played side by side."""
    asked = {
        item.callspec.params.get("scenario")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    _session_broker.start()
    folders = {
        name: tmp_path_factory.mktemp(name.replace(" ", "-")) for name in _CASES if name in asked
    }
    with ExitStack() as stack:
        smooth = stack.enter_context(ThreadPoolExecutor(_AT_ONCE))
        alone = stack.enter_context(ThreadPoolExecutor(1))

        def on_session_broker(name: str) -> Faults:
            return played(_scenario(name), _stage(_session_broker, folders[name], name))

        def on_own_broker(name: str) -> Faults:
            with rough_broker() as (broker, proxy):
                stage = _stage(broker, folders[name], name)
                stage.proxy = proxy
                return played(_scenario(name), stage)

        yield {
            name: alone.submit(on_own_broker, name)
            if _scenario(name) in ROUGH
            else smooth.submit(on_session_broker, name)
            for name in folders
        }
        for pool in (smooth, alone):
            pool.shutdown(cancel_futures=True)


def _scenario(case: str) -> str:
    return case.removesuffix(_ON_S3).removesuffix(_THROUGH_CONFLUENT)


def _stage(broker: Broker, folder: Path, case: str) -> Stage:
    return Stage(
        broker=broker,
        folder=folder,
        seed=_SEED,
        client="confluent" if case.endswith(_THROUGH_CONFLUENT) else "kafka-python",
        times=1,
        minutes=_SOAK,
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
def test_the_state_is_the_fold_of_the_log_after_every_fault(
    scenario: str, verdicts: Verdicts
) -> None:
    if scenario.endswith(_ON_S3) and not s3.is_installed():
        pytest.skip("pip install 'streameval[s3server]'")
    assert verdicts[scenario].result() == []
