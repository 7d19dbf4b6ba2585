"""Lists that were not shown, counted or judged as if they had been; tests must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from streameval.accumulator import accumulator, objections
from streameval.analyses.changes import reader as changes
from streameval.analyses.experiments import reader as variants
from streameval.analyses.gaps import reader as gaps
from streameval.engine import partition
from streameval.engine.rankers import CountedLists
from streameval.engine.windows.labels import Folding
from streameval.join.closed_lists import ClosedLists
from tests.cli import test_rankers as commands
from tests.engine import test_rankers as engine
from tests.join import test_rankers as joins
from tests.mutation.mistake import Mistake, around, replaced


def _configured(test: Callable[..., None], *texts: str) -> Callable[[], None]:
    """A test of configurations, without fixtures."""

    def law() -> None:
        with TemporaryDirectory() as folder:
            test(*(engine.configured(Path(folder), text) for text in texts))

    return law


def _in_a_folder(test: Callable[[Path], None]) -> Callable[[], None]:
    def law() -> None:
        with TemporaryDirectory() as folder:
            test(Path(folder))

    return law


def _count_duplicates(patch: pytest.MonkeyPatch) -> None:
    """Make lists of all events before duplicates are known."""
    patch.setattr(CountedLists, "keep", lambda lists, _: lists)
    patch.setattr(
        CountedLists, "spread", lambda lists, column, _: np.repeat(column, lists.per_event)
    )


def _as_shown(kept: Any) -> Any:
    def lists_of(*given: Any) -> Any:
        lists = kept(*given)
        return replace(lists, batch=replace(lists.batch, shown_instead=None))

    return lists_of


def _by_ranker(kept: Any) -> Any:
    """The lists of a batch by ranker, not by event."""

    def lists_of(events: Any, rankers: Any) -> Any:
        lists, size = kept(events, rankers), 1 + len(rankers)
        return lists.take(np.arange(len(lists.batch)).reshape(-1, size).T.ravel())

    return lists_of


def _every(_: Any, slices: Iterable[int]) -> list[int]:
    return list(slices)


_POOLED = _configured(
    engine.test_whatever_pools_the_rankers_reads_the_lists_that_were_shown,
    engine.RANKED,
    engine.CONFIG,
)

MISTAKES = (
    Mistake(
        "the lists of duplicates count",
        _configured(engine.test_an_event_counts_once_whatever_its_rankers, engine.RANKED),
        _count_duplicates,
    ),
    Mistake(
        "lists in the shadow count as if they had been shown",
        _configured(
            engine.test_a_ranker_that_was_not_shown_has_no_verdict_and_says_its_overlap,
            engine.RANKED,
        ),
        around(partition, "lists_of", _as_shown),
    ),
    Mistake(
        "the lists of a batch are in the order of the rankers",
        _in_a_folder(engine.test_the_size_of_batches_changes_no_byte_even_above_the_cap),
        around(partition, "lists_of", _by_ranker),
    ),
    Mistake(
        "an experiment by another label has lists in the shadow",
        _POOLED,
        replaced(variants, "shown_slices", _every),
    ),
    Mistake("a gap has lists in the shadow", _POOLED, replaced(gaps, "shown_slices", _every)),
    Mistake("a change has lists in the shadow", _POOLED, replaced(changes, "shown_slices", _every)),
    Mistake(
        "a ranker that was not shown has a verdict",
        commands.test_python_refuses_a_verdict_too,
        replaced(objections, "overlap_together", lambda *_: None),
    ),
    Mistake(
        "an accumulator forgets which lists were not shown",
        commands.test_lists_that_were_not_shown_need_the_metric_that_tells_so,
        replaced(accumulator, "refuse_unshown", lambda *_: None),
    ),
    Mistake(
        "lists above the cap are folded with those of other rankers",
        _in_a_folder(engine.test_the_size_of_batches_changes_no_byte_even_above_the_cap),
        replaced(Folding, "_folded", lambda folding, _: folding._all),
    ),
    Mistake(
        "a join mixes the lists of two rankers",
        _configured(
            joins.test_closed_lists_count_as_events_with_their_interactions_do,
            joins.JOIN,
            joins.PLAIN,
        ),
        around(
            ClosedLists,
            "_rankers",
            lambda kept: lambda lists: [row[::-1] for row in kept(lists)],
        ),
    ),
)
