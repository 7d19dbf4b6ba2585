"""Counts files in several processes, to the bits of one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import groupby
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, NamedTuple, TypeVar

from streameval.errors import InvalidEventError, SourceError, StreamevalError
from streameval.partials import Counter, Partial
from streameval.tables.events import Form, event_rows
from streameval.tables.files import Piece, Table, tables_of

T = TypeVar("T")
R = TypeVar("R")

_LARGEST: Final = 16 << 20
"""Bytes that are counted before a result is sent: what a result costs is small beside that."""
_SHARES: Final = 4
"""Tasks for each process at least, so that all of them end at about the same time."""


class LostProcessError(StreamevalError):
    """A process that counted ended before its work was done."""

    def __init__(self, status: int | None) -> None:
        self.status = status
        how = f" by signal {-status}" if status is not None and status < 0 else ""
        super().__init__(
            f"a process that counted was ended{how}, most often because memory ran out; "
            "run it again with fewer processes."
        )


def shared(work: Sequence[T], sizes: Sequence[int], processes: int) -> list[list[T]]:
    """Work in tasks, in its order: small enough to be shared, and no smaller.

    Example:
        >>> shared(["a", "b", "c", "d"], [10, 10, 50, 10], 1)
        [['a', 'b'], ['c'], ['d']]
    """
    most = min(_LARGEST, sum(sizes) // (_SHARES * processes))
    tasks: list[list[T]] = []
    filled = most
    for each, size in zip(work, sizes, strict=True):
        if not tasks or filled + size > most:
            tasks.append([])
            filled = 0
        tasks[-1].append(each)
        filled += size
    return tasks


@contextmanager
def results(count: Callable[[T], R], tasks: Sequence[T], processes: int) -> Iterator[Iterator[R]]:
    """What `count` makes of each task, in the order of the tasks.

    `count`: is pickled once for each process that is started; is called here as well.

    Raises:
        LostProcessError: one was ended, for example by the system for want of memory.
        StreamevalError: what `count` raised of the first task that it could not count.
    """
    processes = min(processes, len(tasks))
    if processes < 2:
        yield map(count, tasks)
        return
    # A forked process would inherit locks of threads: those of Arrow and of a progress bar.
    context = multiprocessing.get_context("spawn")
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(processes - 1, context, initializer=_begin, initargs=(count,))
    sharing = _Sharing(count, tasks, pool)
    workers: list[BaseProcess] = []
    try:
        with _interrupts_held():
            for _ in range(processes - 1):
                sharing.hand_over()
            workers = [each for each in multiprocessing.active_children() if each not in others]
        yield iter(sharing)
    except BrokenProcessPool:
        pool.shutdown()
        raise LostProcessError(_status(workers)) from None
    finally:
        for worker in workers:
            worker.terminate()
        pool.shutdown(cancel_futures=True)


class _Sharing(Generic[T, R]):
    """Tasks that this process and those of a pool take as each has time.

    A pool that is given all tasks takes more of them than it has processes, and this one would
    wait for those at the end.
    """

    def __init__(
        self, count: Callable[[T], R], tasks: Sequence[T], pool: ProcessPoolExecutor
    ) -> None:
        self._count, self._pool = count, pool
        self._results: list[Future[R]] = [Future() for _ in tasks]
        self._waiting = deque(zip(tasks, self._results, strict=True))

    def hand_over(self, _: object = None) -> None:
        """Give the pool one task, and another one whenever that is done."""
        # None is left, or the pool was shut down because the results are no longer wanted.
        with suppress(IndexError, RuntimeError):
            task, result = self._waiting.popleft()
            given = self._pool.submit(_count, task)
            given.add_done_callback(partial(_pass_on, result))
            given.add_done_callback(self.hand_over)

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


def _pass_on(result: Future[R], given: Future[R]) -> None:
    if given.cancelled():
        return
    error = given.exception()
    if error is None:
        result.set_result(given.result())
    else:
        result.set_exception(error)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started within hear no interrupts, which a terminal sends to all of them.

    One that comes meanwhile waits: it is not lost to this process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _status(workers: Sequence[BaseProcess]) -> int | None:
    """How the one that was lost ended; the pool itself terminates the others."""
    found = (worker.exitcode for worker in workers)
    return next((each for each in found if each not in (None, 0, -signal.SIGTERM)), None)


_counts: list[Callable[[Any], Any]] = []
"""In a process of the pool: what it was started for."""


def _begin(count: Callable[[Any], Any]) -> None:
    _counts.append(count)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End with the process that wants the results, also where it was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _count(task: Any) -> Any:
    return _counts[0](task)


class Counted(NamedTuple):
    """What came of a task."""

    size: int
    lists: int
    rows: list[Partial]


class TableCounting:
    """Counts pieces of tables."""

    def __init__(
        self, form: Form, metrics: Sequence[str], every: str | None, inputs: Mapping[str, Any]
    ) -> None:
        self._form, self._metrics = form, metrics
        self._every, self._inputs = every, inputs

    def __call__(self, pieces: Sequence[Piece]) -> Counted:
        """Count pieces, in their order.

        Raises:
            SourceError: a file cannot be read, or a row of it is not an event.
        """
        at: list[tuple[Table, Any]] = []
        try:
            rows = self._counter.rows(self._events(pieces, at))
        except InvalidEventError as error:
            raise self._refused(*at.pop(), error) from error
        return Counted(sum(each.size for each in pieces), sum(row.lists for row in rows), rows)

    def _events(self, pieces: Sequence[Piece], at: list[tuple[Table, Any]]) -> Iterator[Any]:
        """Tables of events, one after the other; `at` is the one that is being counted."""
        wanted = self._form.wanted()
        for _, same in groupby(pieces, lambda piece: piece.path):
            first, *others = same
            groups = (group for piece in others for group in piece.groups)
            for table in tables_of(first._replace(groups=(*first.groups, *groups)), wanted):
                events = event_rows(table, self._form)
                at[:] = [(table, events)]
                yield events

    def _refused(self, table: Table, events: Any, error: InvalidEventError) -> SourceError:
        """Which row is not an event: the first that makes counting fail."""
        counted, failing = 0, events.num_rows
        while failing - counted > 1:
            middle = (counted + failing) // 2
            try:
                self._counter.rows([events[counted:middle]])
                counted = middle
            except InvalidEventError as found:
                failing, error = middle, found
        problem = f"{table.place(counted)}: {error.detail}"
        return SourceError(table.path, problem, "correct the file")

    def __getstate__(self) -> dict[str, Any]:
        # Each process makes its own.
        return {name: each for name, each in self.__dict__.items() if name != "_counter"}

    @cached_property
    def _counter(self) -> Counter:
        return Counter(
            *self._metrics,
            by=self._form.by,
            every=self._every,
            label_bytes=self._form.fields.max_label_bytes,
            **self._inputs,
        )
