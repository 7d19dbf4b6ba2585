"""Maps a function over the parts of files in several processes; results come in their order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any, Final, TypeVar

from streameval.events.errors import StreamevalError, named_fields

T = TypeVar("T")
R = TypeVar("R")

_MAX_TASK_BYTES: Final = 16 << 20
"""Most bytes per task: enough to make the cost of sending a result negligible."""
_TASKS_PER_PROCESS: Final = 4
"""Fewest tasks per process, so that all processes end at about the same time."""


@named_fields
class LostProcessError(StreamevalError):
    """A worker process ended before its work was done."""

    status: int | None


def tasks_by_size(work: Sequence[T], sizes: Sequence[int], processes: int) -> list[list[T]]:
    """Group work into tasks of consecutive items, as large as balance between processes allows.

    Example:
        >>> tasks_by_size(["a", "b", "c", "d"], [10, 10, 50, 10], 1)
        [['a', 'b'], ['c'], ['d']]
    """
    limit = min(_MAX_TASK_BYTES, sum(sizes) // (_TASKS_PER_PROCESS * processes))
    tasks: list[list[T]] = []
    filled = 0
    for item, size in zip(work, sizes, strict=True):
        if not tasks or filled + size > limit:
            tasks.append([])
            filled = 0
        tasks[-1].append(item)
        filled += size
    return tasks


@contextmanager
def map_parts(
    function: Callable[[Sequence[T]], R], parts: Sequence[T], sizes: Sequence[int], processes: int
) -> Iterator[Iterator[R]]:
    """Map a function, pickled once per process, over groups of parts; results come in order.

    Raises:
        LostProcessError: a process was killed, for example because memory ran out.
    """
    tasks = tasks_by_size(parts, sizes, processes)
    if min(processes, len(tasks)) < 2:
        yield map(function, tasks)
        return
    # A forked process would inherit locks that other threads hold (Arrow, progress bar).
    context = multiprocessing.get_context("spawn")
    number, others = min(processes, len(tasks)), multiprocessing.active_children()
    workers: list[BaseProcess] = []
    with ProcessPoolExecutor(number, context, initializer=_begin, initargs=(function,)) as pool:
        try:
            # A terminal sends an interrupt to the whole group; only this process answers it.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                results = pool.map(_apply, tasks)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            workers = [
                process for process in multiprocessing.active_children() if process not in others
            ]
            yield results
        except BrokenProcessPool:
            pool.shutdown()
            # The pool itself terminates the workers that were not lost.
            codes = (worker.exitcode for worker in workers)
            lost = next((code for code in codes if code not in (None, 0, -signal.SIGTERM)), None)
            how = f" by signal {-lost}" if lost is not None and lost < 0 else ""
            raise LostProcessError(
                f"a worker process was killed{how}, most likely because memory ran out; run again "
                "with fewer processes.",
                status=lost,
            ) from None
        except BaseException:
            for worker in workers:
                worker.terminate()
            raise


_functions: list[Callable[[Any], Any]] = []
"""In a worker process: the one function that it was started with."""


def _begin(function: Callable[[Any], Any]) -> None:
    def end_with_parent() -> None:
        # Also if the parent is killed.
        if (parent := multiprocessing.parent_process()) is not None:
            parent.join()
            os._exit(1)

    _functions.append(function)
    threading.Thread(target=end_with_parent, daemon=True).start()


def _apply(task: Any) -> Any:
    return _functions[0](task)
