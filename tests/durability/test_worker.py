"""Both workers keep one contract."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from streameval.durability.worker import Inline, Threaded, Worker
from streameval.errors import StoreError


@pytest.fixture(params=[Inline, Threaded])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    make: Callable[[], Worker] = request.param
    made = make()
    yield made
    made.close()


def test_a_job_has_its_result(worker: Worker) -> None:
    job = worker.submit(lambda: 42)
    assert job.result(60) == 42
    assert job.done()


def test_a_job_raises_what_the_work_raised(worker: Worker) -> None:
    def fails() -> None:
        raise StoreError("state", "no space left on device", "make room")

    job = worker.submit(fails)
    with pytest.raises(StoreError, match="no space left"):
        job.result(60)
    assert job.done()


def test_work_is_done_in_the_order_in_which_it_was_handed_over(worker: Worker) -> None:
    found: list[int] = []
    jobs = [worker.submit(lambda number=number: found.append(number)) for number in range(9)]  # type: ignore[misc]  # a default argument is what binds it
    for job in jobs:
        job.result(60)
    assert found == list(range(9))


def test_a_thread_does_not_keep_the_loop_and_a_wait_for_it_has_an_end() -> None:
    worker, going_on = Threaded(), threading.Event()
    job = worker.submit(lambda: going_on.wait(60))
    assert not job.done()
    with pytest.raises(TimeoutError):
        job.result(0)
    going_on.set()
    assert job.result(60)
    worker.close()
