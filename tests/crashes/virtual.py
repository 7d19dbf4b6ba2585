"""Virtual time: processes take turns on one thread, and a seed decides when each goes on.

A process is code that blocks: it pauses, or waits for a future. Each of its threads is a greenlet,
which hands over to the scheduler there, so that the code under test runs as it is. Time passes
only between two turns.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from random import Random
from typing import Any, ParamSpec, TypeVar

from greenlet import getcurrent, greenlet

from tests.crashes.simulated_disk import Crash

P = ParamSpec("P")
R = TypeVar("R")


class Process:
    """A process, which may be killed or frozen between any two steps.

    Attributes:
        name: unique in a schedule.
        is_dead: it was killed, and takes no more steps.
        frozen_until: time at which it goes on.
        error: what it ended with; None if it runs, was killed, or ended in order.
        has_ended: whether its main thread is over.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = self.has_ended = False
        self.frozen_until = 0.0
        self.error: Exception | None = None
        self.tasks: list[Task] = []


class Task:
    """A thread of a process.

    Attributes:
        turn: how often it was resumed.
        spent: processor time that it has taken, seconds.
    """

    __slots__ = ("process", "spent", "thread", "turn")

    def __init__(self, process: Process, thread: greenlet) -> None:
        self.process, self.thread = process, thread
        self.turn, self.spent = 0, 0.0


class Scheduler:
    """Runs tasks and callbacks in the order of virtual time.

    Attributes:
        now: seconds since the start.
        random: the only source of chance.
        trace: what happened when; equal for equal seeds.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self.trace: list[tuple[float, str, str]] = []
        self._hub = getcurrent()
        self._current: Task | None = None
        self._queue: list[tuple[float, int, Task | None, int, Callable[[], None]]] = []
        self._pushed = 0

    @property
    def process(self) -> Process | None:
        """The process whose turn it is; None in a callback."""
        return None if self._current is None else self._current.process

    @property
    def spent(self) -> float:
        """Processor time of the current thread, seconds."""
        return 0.0 if self._current is None else self._current.spent

    def spend(self, seconds: float) -> None:
        """Take processor time."""
        if self._current is not None:
            self._current.spent += seconds

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        process = self.process
        self.trace.append((self.now, "" if process is None else process.name, what))

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Call a function so many seconds from now; it must not pause."""
        self._push(self.now + seconds, None, 0, call)

    def spawn(self, process: Process, run: Callable[[], None]) -> None:
        """Start a thread of a process."""
        task = Task(process, greenlet(partial(self._guarded, process, run), self._hub))
        process.tasks.append(task)
        self._push(self.now, task, 0)

    def pause(self, seconds: float) -> None:
        """Let the current task go on after some seconds."""
        task = self._task()
        self._push(self.now + seconds, task, task.turn)
        self._leave(task)

    def wait(self, future: Future[Any], seconds: float | None) -> None:
        """Wait until the future is done, or for some seconds."""
        if future.done():
            return
        task = self._task()
        turn = task.turn
        future.add_done_callback(lambda _: self._push(self.now, task, turn))
        if seconds is not None:
            self._push(self.now + seconds, task, turn)
        self._leave(task)

    def kill(self, process: Process) -> None:
        """End a process at once, wherever each of its threads is; from a callback."""
        process.is_dead = True
        for task in process.tasks:
            if task.turn and not task.thread.dead:
                self._resume(task, Crash())
        process.tasks = []

    def run(self, until: Callable[[], bool]) -> None:
        """Go on until a condition holds, which is asked after each turn, or nothing is left."""
        while self._queue and not until():
            self.now, _, task, turn, call = heapq.heappop(self._queue)
            if task is None:
                call()
            elif task.turn == turn and not task.thread.dead and not task.process.is_dead:
                if task.process.frozen_until > self.now:
                    self._push(task.process.frozen_until, task, turn)
                else:
                    self._resume(task)
                    self._bury(task.process)

    def _bury(self, process: Process) -> None:
        """End the other threads of a process that has passed the point at which it is killed."""
        if process.is_dead and process.tasks:
            self.kill(process)

    def _resume(self, task: Task, error: BaseException | None = None) -> None:
        task.turn += 1
        self._current = task
        if error is None:
            task.thread.switch()
        else:
            task.thread.throw(error)
        self._current = None

    def _leave(self, task: Task) -> None:
        self._hub.switch()
        if task.process.is_dead:
            raise Crash

    def _guarded(self, process: Process, run: Callable[[], None]) -> None:
        try:
            run()
        except Crash:
            process.is_dead = True
        except Exception as error:  # noqa: BLE001  judged like any other outcome of the process
            if not process.is_dead:
                process.error = error

    def _task(self) -> Task:
        assert self._current is not None, "a callback must not pause"
        if self._current.process.is_dead:
            raise Crash
        return self._current

    def _push(
        self, at: float, task: Task | None, turn: int, call: Callable[[], None] = lambda: None
    ) -> None:
        self._pushed += 1
        heapq.heappush(self._queue, (at, self._pushed, task, turn, call))


class VirtualFuture(Future[R]):
    """A future whose result is waited for in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def result(self, timeout: float | None = None) -> R:
        self._scheduler.wait(self, timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self._scheduler.wait(self, timeout)
        return super().exception(0)


class VirtualWorker(Executor):
    """One more thread of a process, which does what is submitted, one after the other."""

    def __init__(self, scheduler: Scheduler, process: Process) -> None:
        self._scheduler, self._process = scheduler, process
        self._jobs: deque[Callable[[], None]] = deque()
        self._is_running = False

    def submit(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        future: VirtualFuture[R] = VirtualFuture(self._scheduler)

        def job() -> None:
            try:
                future.set_result(work(*args, **kwargs))
            except Exception as error:  # noqa: BLE001  as any executor
                future.set_exception(error)

        self._jobs.append(job)
        if not self._is_running:
            self._is_running = True
            self._scheduler.spawn(self._process, self._run)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  the signature of executors
        del wait, cancel_futures
        while self._is_running:
            self._scheduler.pause(0.1)

    def _run(self) -> None:
        while self._jobs:
            self._jobs.popleft()()
        self._is_running = False


class VirtualLock:
    """A lock that is waited for in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_held = False

    def __enter__(self) -> None:
        while self._is_held:
            self._scheduler.pause(0.05)
        self._is_held = True

    def __exit__(self, *_: object) -> None:
        self._is_held = False
