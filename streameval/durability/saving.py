"""When checkpoints are made, one partition after the other, and what becomes of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Executor, Future

from streameval.durability.confirming import Confirmed, Confirming
from streameval.durability.holding import Holding, Outcome
from streameval.durability.needs import Clock
from streameval.durability.news import News
from streameval.durability.outbox import Outbox
from streameval.durability.store import Store
from streameval.durability.terms import Terms
from streameval.errors import DamagedStateError, DeadLetterError, StoreError
from streameval.records import Partition

_FAILURES = (StoreError, DeadLetterError, DamagedStateError)
_REASONS = ("store", "dead_letters", "timeout")


class Saving:
    """Makes checkpoints in rounds: every so often, of each partition that has changed.

    Args:
        store: where they go.
        outbox: what must be safe before.
        confirming: what follows.
        terms: how often.
        clock: where time comes from.
        worker: writes checkpoints, one after the other.

    Attributes:
        events: records counted since the last round began.
        failures: checkpoints that failed, by what failed; each is tried again in the next round.
        last_success: when one was last written, seconds since the epoch; None before the first.
    """

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        confirming: Confirming,
        *,
        terms: Terms,
        clock: Clock,
        worker: Executor,
    ) -> None:
        self.events = 0
        self.failures = dict.fromkeys(_REASONS, 0)
        self.last_success: float | None = None
        self._store = store
        self._outbox = outbox
        self._confirming = confirming
        self._terms = terms
        self._clock = clock
        self._worker = worker
        self._began_at = clock.monotonic()
        self._hurry = False
        self._queue: list[Partition] = []

    def hasten(self) -> None:
        """Begin a round at the next turn."""
        self._hurry = True

    def turn(self, holdings: Mapping[Partition, Holding]) -> list[News]:
        """Take what is done, begin what is due; at most one partition is copied."""
        news = self._take_done(holdings.values())
        if self._due():
            self._began_at, self.events, self._hurry = self._clock.monotonic(), 0, False
            self._queue = sorted(partition for partition, each in holdings.items() if each.changed)
            news += self._confirm()
        if self._queue and not any(each.job for each in holdings.values()):
            holding = holdings.get(self._queue.pop(0))
            if holding is not None and holding.changed:
                holding.job = self._submitted(holding)
                news += self._take_done([holding])
        return news

    def first(self, holding: Holding) -> None:
        """Write the first checkpoint of a partition, here and now.

        Raises:
            DeadLetterError: letters of other partitions are not safe.
            StoreError: it could not be written.
        """
        cut = holding.cut(self._terms, self._clock.wall())
        self._took(holding, cut.save(self._store, self._outbox))

    def save(self, holdings: Collection[Holding], most: float = math.inf) -> list[News]:
        """Save all that have changed; nothing is begun or waited for beyond the budget.

        Args:
            holdings: which.
            most: seconds, where that is less than the budget.
        """
        until = self._clock.monotonic() + min(most, self._terms.budget)
        news = self.wait(holdings, until)
        for holding in holdings:
            if holding.job is None and holding.changed and self._clock.monotonic() < until:
                holding.job = self._submitted(holding)
                news += self.wait([holding], until)
        return news + self._confirm()

    def wait(self, holdings: Iterable[Holding], until: float | None = None) -> list[News]:
        """Let what is being written come to its end, within the budget."""
        if until is None:
            until = self._clock.monotonic() + self._terms.budget
        news = []
        for holding in holdings:
            if holding.job is not None:
                remaining = max(0.0, until - self._clock.monotonic())
                news += self._take(holding, holding.job, remaining)
        return news

    def _due(self) -> bool:
        if self._queue:
            return False
        if self._hurry:
            return True
        enough = self._terms.events is not None and self.events >= self._terms.events
        return enough or self._clock.monotonic() - self._began_at >= self._terms.interval

    def _submitted(self, holding: Holding) -> Future[Outcome]:
        cut = holding.cut(self._terms, self._clock.wall())
        return self._worker.submit(lambda: cut.save(self._store, self._outbox))

    def _take_done(self, holdings: Iterable[Holding]) -> list[News]:
        news = []
        for holding in holdings:
            if holding.job is not None and holding.job.done():
                news += self._take(holding, holding.job, 0.0)
                news += self._confirm()
        return news

    def _take(self, holding: Holding, job: Future[Outcome], seconds: float) -> list[News]:
        try:
            outcome = job.result(seconds)
        except TimeoutError:
            return [self._failed(holding, "timeout", "it was not written in time")]
        except _FAILURES as error:
            holding.job = None
            holding.forget_marks()
            reason = "dead_letters" if isinstance(error, DeadLetterError) else "store"
            return [self._failed(holding, reason, str(error))]
        holding.job = None
        self._took(holding, outcome)
        return []

    def _took(self, holding: Holding, outcome: Outcome) -> None:
        self.last_success = self._clock.wall()
        holding.took(outcome)
        if outcome.offset < holding.counted:
            return
        confirmed = Confirmed(
            holding.resumption.place,
            outcome.offset,
            outcome.offsets,
            outcome.totals,
            outcome.fold,
        )
        self._confirming.add(holding.partition, confirmed)

    def _confirm(self) -> list[News]:
        trouble = self._confirming.now()
        return [] if trouble is None else [trouble]

    def _failed(self, holding: Holding, reason: str, problem: str) -> News:
        self.failures[reason] += 1
        where = str(holding.resumption.place)
        fields = {"partition": where, "offset": holding.offset, "problem": problem}
        return News("warning", "a checkpoint was not written", fields)
