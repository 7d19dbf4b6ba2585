"""Counts files in several processes; the result equals that of one, bit for bit."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, TypeVar

from streameval.events.errors import StreamevalError

T = TypeVar("T")
R = TypeVar("R")

_MAX_TASK_BYTES: Final = 16 << 20
"""Most bytes per task: enough to make the cost of sending a result negligible."""
_TASKS_PER_PROCESS: Final = 4
"""Fewest tasks per process, so that all processes end at about the same time."""


class LostProcessError(StreamevalError):
    """A worker process ended before its work was done."""

    def __init__(self, status: int | None) -> None:
        self.status = status
        how = f" by signal {-status}" if status is not None and status < 0 else ""
        super().__init__(
            f"a worker process was killed{how}, most likely because memory ran out; run again "
            "with fewer processes."
        )


def tasks_by_size(work: Sequence[T], sizes: Sequence[int], processes: int) -> list[list[T]]:
    """Group work into tasks of consecutive items, as large as balance between processes allows.

    Example:
        >>> tasks_by_size(["a", "b", "c", "d"], [10, 10, 50, 10], 1)
        [['a', 'b'], ['c'], ['d']]
    """
    limit = min(_MAX_TASK_BYTES, sum(sizes) // (_TASKS_PER_PROCESS * processes))
    tasks: list[list[T]] = []
    filled = 0
    for item_of_work, size in zip(work, sizes, strict=True):
        if not tasks or filled + size > limit:
            tasks.append([])
            filled = 0
        tasks[-1].append(item_of_work)
        filled += size
    return tasks


@contextmanager
def map_in_processes(
    count: Callable[[T], R], tasks: Sequence[T], processes: int
) -> Iterator[Iterator[R]]:
    """Map `count` over tasks, in this process and in others; yields results in task order.

    `count`: is pickled once per worker process.

    Raises:
        LostProcessError: a worker was killed, for example because memory ran out.
        StreamevalError: raised by `count` for the first task that failed.
    """
    processes = min(processes, len(tasks))
    if processes < 2:
        yield map(count, tasks)
        return
    # A forked process would inherit locks that other threads hold (Arrow, progress bar).
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes - 1, context, initializer=_start_worker, initargs=(count,))
    queue = _TaskQueue(count, tasks, pool)
    workers: list[BaseProcess] = []
    try:
        with _interrupts_blocked():
            for _ in range(processes - 1):
                queue.hand_over()
            workers = [
                active_child
                for active_child in multiprocessing.active_children()
                if active_child not in others
            ]
        yield iter(queue)
    except BrokenProcessPool:
        pool.shutdown()
        raise LostProcessError(_status(workers)) from None
    finally:
        for worker in workers:
            worker.terminate()
        pool.shutdown(cancel_futures=True)


class _TaskQueue(Generic[T, R]):
    """Tasks that this process and a pool take whenever they are free.

    A pool that gets all tasks at once prefetches more than it has processes; this process would
    wait idle for those at the end.
    """

    def __init__(
        self, count: Callable[[T], R], tasks: Sequence[T], pool: ProcessPoolExecutor
    ) -> None:
        self._count, self._pool = count, pool
        self._results: list[Future[R]] = [Future() for _ in tasks]
        self._waiting = deque(zip(tasks, self._results, strict=True))

    def hand_over(self, _: object = None) -> None:
        """Give the pool one task, and the next one when that is done."""
        # No task is left, or the pool was shut down because nobody reads the results.
        with suppress(IndexError, RuntimeError):
            task, result = self._waiting.popleft()
            submitted = self._pool.submit(_count, task)
            submitted.add_done_callback(partial(_copy_result, result))
            submitted.add_done_callback(self.hand_over)

    def __iter__(self) -> Iterator[R]:
        for result in self._results:
            while self._waiting and not result.done():
                self._count_here()
            yield result.result()

    def _count_here(self) -> None:
        with suppress(IndexError):
            task, result = self._waiting.popleft()
            try:
                result.set_result(self._count(task))
            except StreamevalError as error:
                result.set_exception(error)


def _copy_result(result: Future[R], submitted: Future[R]) -> None:
    if submitted.cancelled():
        return
    error = submitted.exception()
    if error is None:
        result.set_result(submitted.result())
    else:
        result.set_exception(error)


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that ignore interrupts, which a terminal sends to the whole group.

    An interrupt in the meantime is delivered to this process afterwards.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _status(workers: Sequence[BaseProcess]) -> int | None:
    """Exit status of the worker that was lost; the pool itself terminates the others."""
    exit_codes = (worker.exitcode for worker in workers)
    return next((code for code in exit_codes if code not in (None, 0, -signal.SIGTERM)), None)


_counts: list[Callable[[Any], Any]] = []
"""In a worker process: the one function that it was started with."""


def _start_worker(count: Callable[[Any], Any]) -> None:
    _counts.append(count)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Exit with the parent process, even if it is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _count(task: Any) -> Any:
    return _counts[0](task)
