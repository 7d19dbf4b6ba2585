"""A metric that is read after each event has the bits of the table, whatever comes in between."""

from __future__ import annotations

import math
import random
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from streameval import Accumulator, Intervals, metric
from streameval.catalogue import conventions, parse
from streameval.catalogue.lookup import parameters
from streameval.catalogue.signature import PER_USER
from streameval.events import Event
from streameval.events.errors import (
    HalfCountedError,
    InvalidEventError,
    SuspiciousEventsWarning,
)
from streameval.statistics.hitrows import HitsView, Total
from tests.contract import laws
from tests.contract.metric_cases import NAMES, inputs, stream
from tests.effort import thorough
from tests.strategies import takes_k

ITEMS = ("a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8")
CUTS = (1, 2, 5, None)
EVENTS = 45
_NOON = 1_700_000_000_000_000


@metric(bounds=(0, 1e9), source="our own rule")
def odd_sum(hits: HitsView, k: int | None) -> Total:
    """A formula that is no chain of steps on the count of a row."""
    rows = hits.by_interacted(k)
    return rows.total(rows.hits**2 / rows.rank)


def _texts(k: int | None) -> list[str]:
    """Each metric of hits, lists and events with each value of each parameter, by itself."""
    names = [name for name in NAMES if parse(name).definition.reads in ("hits", "lists", "event")]
    texts = []
    for name in names:
        cut = f"@{k}" if k is not None and takes_k(name) else ""
        if k is not None and not cut:
            continue
        texts.append(f"{name}{cut}")
        for parameter in _parameters(name).values():
            texts += [f"{name}({parameter.name}={value}){cut}" for value in parameter.choices or ()]
        for system in conventions.CONVENTIONS:
            texts.append(f"{system}:{name}{cut}")
    texts += [f"rbp(p=0.001)@{k}", f"ctr(rank=2)@{k}", f"dcg(cap=1.5)@{k}"] if k else []
    texts += [f"recall(min_gain=2)@{k}", f"ndcg(min_gain=1,relevant=all)@{k}"] if k else []
    texts += [f"{name}(clip=0.5)@{k}" for name in ("ips", "snips", "dr", "clipped_share") if k]
    texts += [f"{name}(among=genre:news)" for name in ("bpref", "unexpectedness", "ndcg")]
    return [text for text in texts if _is_read(text)]


def _is_read(text: str) -> bool:
    try:
        result = parse(text)
        Accumulator(text, **inputs().of_package)
    except Exception:  # noqa: BLE001  a convention has few metrics, some values exclude others
        return False
    return result.values.get(PER_USER) != "user"


def _parameters(name: str) -> dict[str, Any]:
    return dict(parameters(parse(name).definition))


def _fields(event: Event) -> dict[str, Any]:
    """The arguments of `update` for an event."""
    fields = msgspec.structs.asdict(event)
    return {name: value for name, value in fields.items() if value not in (None, ())}


def _event(draw: random.Random, *, graded: float = 0.2, ranked: float = 0.2) -> dict[str, Any]:
    recommended = [draw.choice(ITEMS) for _ in range(draw.choice((0, 2, 5, 5)))]
    if draw.random() < 0.7:
        recommended = draw.sample(ITEMS, len(recommended))
    interactions: Any = draw.choices(ITEMS, k=draw.choice((0, 1, 1, 2, 4)))
    interactions = draw.choice((list, tuple, set))(interactions)
    if draw.random() < graded:
        interactions = {
            item: draw.choice((1, 1, 2, 0.5, 3, -1, 0, 1e-200)) for item in interactions
        }
    event = {"recommendations": recommended, "interactions": interactions}
    if draw.random() < ranked:
        event["positions"] = draw.choices(range(1, 7), k=len(recommended))
    if draw.random() < 0.2:
        event |= {"user": draw.choice("uvw"), "scores": [draw.random() for _ in recommended]}
    return event | ({"ts": _NOON} if draw.random() < 0.1 else {})


def _refusal(count: Callable[[], None]) -> str | None:
    try:
        count()
    except InvalidEventError as error:
        return error.reason
    return None


class Pair:
    """An accumulator that is read after each event, and one that counts batches only."""

    def __init__(self, *texts: Any, **options: Any) -> None:
        self.texts = texts
        self.live, self.other = (
            Accumulator(*texts, **inputs().of_package, ids="text", **options) for _ in range(2)
        )

    def count(self, event: dict[str, Any]) -> None:
        """Count an event in both, or in none: some have a word where a metric needs a number."""
        reasons = [
            _refusal(lambda: self.live.update(**deepcopy(event))),
            _refusal(lambda: self.other.update_many([Event(**event)])),
        ]
        assert reasons[0] == reasons[1]

    def compare(self, texts: Any = None) -> None:
        for text in texts or self.texts:
            left, right = (repr(each.read(text)) for each in (self.live, self.other))
            assert left == right

    def disturb(self, draw: random.Random) -> None:
        """Something else than a single event, or something that reads the whole table."""
        both, event, kind = (self.live, self.other), _event(draw), draw.randrange(7)
        if kind == 0:
            self.live = self.live.copy()
        elif kind == 1:
            self.live.load_state_dict(self.live.state_dict())
        else:
            duplicate = self.other.copy()
            changes: dict[int, Callable[[Accumulator], object]] = {
                2: lambda each: each.update_many([Event(**event)]),
                3: lambda each: each.merge(duplicate),
                4: lambda each: each.update(**_odd()),
                5: Accumulator.reset,
                6: Accumulator.compute,
            }
            for each in both:
                changes[kind](each)


def _odd() -> dict[str, Any]:
    """An event that no block takes."""
    return {"recommendations": ["a1", "b2"], "interactions": ["b2"], "history": ["c3"]}


_SEEDS = range(4 if thorough() else 1)
_TEXTS = 200 if thorough() else 25
"""Texts in one accumulator."""


@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("k", CUTS)
@pytest.mark.filterwarnings("ignore::streameval.events.errors.SuspiciousEventsWarning")
def test_readings_after_each_event_are_those_of_the_table(k: int | None, seed: int) -> None:
    draw, texts = random.Random(f"{k} {seed}"), _texts(k)
    # With lists that were not shown, which all readings must tell.
    overlap = ["overlap@2"] if k in (2, None) else []
    pair = Pair(*draw.sample(texts, min(_TEXTS, len(texts))), *overlap)
    events = stream(EVENTS, seed=seed, unshown=bool(overlap))
    for at, event in enumerate(events):
        pair.count(_fields(event) if draw.random() < 0.7 else _event(draw))
        if at % 9 == 8:
            pair.disturb(draw)
        pair.compare()
    assert laws.bits(pair.live) == laws.bits(pair.other)


PLAIN = (
    *("hit_rate@3", "mrr@3", "ndcg@3", "map@3", "precision@3", "recall@3", "ctr@3", "hits@3"),
    *("rbp(p=0.001)@3", "f1@3", "err@3", "dcg(gain=exp2)@3", "torchmetrics:map@3"),
)


@pytest.mark.filterwarnings("ignore::streameval.events.errors.SuspiciousEventsWarning")
@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("every", [1, 3, 140])
def test_one_statistic_is_followed_whatever_else_is_counted(every: int, seed: int) -> None:
    draw, pair = random.Random(f"{every} {seed}"), Pair(*PLAIN, odd_sum, intervals=None)
    pair.texts = (*PLAIN, pair.live.metrics[-1].text)
    for at in range(700 if every == 140 else 200):
        pair.count(_event(draw, graded=0.05, ranked=0.05))
        if at % 61 == 60:
            pair.disturb(draw)
        if at % every == 0:
            pair.compare(draw.sample(pair.texts, 6))
    pair.compare()
    assert laws.bits(pair.live) == laws.bits(pair.other)


def test_a_value_costs_no_interval_and_is_that_of_the_reading() -> None:
    draw, pair = random.Random(3), Pair("ndcg@3", "ctr", "auc", intervals=Intervals())
    for _ in range(150):
        pair.count(_event(draw) | {"user": draw.choice("uvw")})
        for text in ("ndcg@3", "ctr", "auc"):
            assert repr(pair.live.value(text)) == repr(pair.other.read(text).value)
    pair.compare()
    assert laws.bits(pair.live) == laws.bits(pair.other)


def _works_on_arrays(task: Callable[[], object]) -> bool:
    """Whether a task calls NumPy."""
    modules: set[str] = set()

    def note(_: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            modules.update({str(called.__module__), type(called.__self__).__module__})

    sys.setprofile(note)
    try:
        task()
    finally:
        sys.setprofile(None)
    return "numpy" in modules


@pytest.mark.parametrize("intervals", [None, Intervals()])
def test_after_some_events_neither_update_nor_read_works_on_arrays(intervals: Any) -> None:
    accumulator = Accumulator(*PLAIN, intervals=intervals)
    draw = random.Random(5)
    events: list[dict[str, Any]] = [
        *({"recommendations": list(ITEMS[:5]), "interactions": [item]} for item in ITEMS),
        *({"recommendations": list(ITEMS[:5]), "interactions": {item: 2.0}} for item in ITEMS),
        {"recommendations": list(ITEMS[:3]), "interactions": [], "positions": [3, 1, 2]},
        {"recommendations": list(ITEMS[:5]), "interactions": list(ITEMS), "user": "u"},
    ]

    def step(event: dict[str, Any]) -> None:
        accumulator.update(**event)
        for text in PLAIN:
            accumulator.value(text)

    for event in (*events, *draw.choices(events, k=160), *events):
        step(event)

    def steps() -> None:
        for event in events:
            step(event)

    assert not _works_on_arrays(steps)


EVENTWISE = (
    *("ips@2", "snips(clip=1)@2", "dr@2", "clipped_share(clip=1)@2", "alpha_ndcg@2", "overlap@2"),
    *("interleaving@2", "bpref(among=genre:news)", "unexpectedness@2", "log_loss", "user_novelty"),
)


def test_metrics_of_events_are_read_after_each_without_arrays() -> None:
    accumulator = Accumulator(*EVENTWISE, **inputs().of_package, ids="text")
    events = [_fields(event) for event in stream(40, unshown=True)]

    def steps() -> None:
        for event in events:
            if _refusal(lambda: accumulator.update(**event)) is None:  # noqa: B023  called at once
                for text in EVENTWISE:
                    accumulator.read(text)

    steps()
    assert not _works_on_arrays(steps)


def test_a_mean_that_can_no_longer_be_followed_is_read_from_the_table() -> None:
    shown = [f"item-{rank}" for rank in range(60)]
    pair = Pair("rbp(p=0.001)", "hit_rate")
    for at in range(600):
        # 0.001^50 is too small for the exact sum.
        pair.count({"recommendations": shown, "interactions": [shown[0 if at < 450 else 50]]})
        pair.compare(["hit_rate"] if at >= 450 else None)
    pair.compare()


@metric(bounds=(-math.inf, math.inf), source="our own rule")
def largest(event: Event) -> list[float]:
    """Values whose sum is no float."""
    return [1e308] * len(event.recommendations)


def test_a_sum_beyond_the_largest_float_is_infinite() -> None:
    pair = Pair(largest)
    pair.texts = (pair.live.metrics[0].text,)
    for shown in (["a1", "b2"], [], [], []):
        pair.count({"recommendations": shown, "interactions": []})
        pair.compare()
    assert pair.live.read(*pair.texts).value == math.inf


def _memory_kept(task: Callable[[], object]) -> int:
    """Bytes that are in use after a task, and were not before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        task()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_what_follows_events_is_small_for_long_lists() -> None:
    items = [f"item-{rank}" for rank in range(2_000)]
    accumulator = Accumulator("mrr@3")

    first_ranks = iter(range(1, 1_000))

    def steps() -> None:
        for _, first in zip(range(200), first_ranks, strict=False):
            accumulator.update(items, items[:1], [*range(first, first + len(items))])
            accumulator.read("mrr@3")
        # What waits is counted.
        accumulator.state_dict()

    steps()
    assert _memory_kept(steps) < 1_500_000


def test_a_mean_of_very_many_rows_is_not_made() -> None:
    items = [f"item-{rank}" for rank in range(300)]
    accumulator = Accumulator("precision")
    accumulator.update_many([(items[:length], items) for length in range(1, 301)])

    def steps() -> None:
        for _ in range(3):
            accumulator.update(items, items[:1])
            accumulator.read("precision")

    steps()
    accumulator.update_many([(items, items[:1])])
    # The table is read, and copies its columns.
    assert _memory_kept(steps) < 16_000_000


def test_compute_after_each_event_rarely_reads_the_table() -> None:
    accumulator, reads = Accumulator("ndcg@3", "mrr@3"), 0
    for _ in range(500):
        accumulator.update(["a1", "b2"], ["b2"])
        reads += _works_on_arrays(accumulator.compute)
    # The first events warm up; then the advice is asked for at a sixteenth more lists each time.
    assert reads < 200
    assert accumulator.read("mrr@3").count == 500


def test_a_standing_warning_rarely_reads_the_table() -> None:
    accumulator, reads = Accumulator("ndcg@3", "mrr@3"), 0
    accumulator.update_many([(["a1", "b2"], ["c3"])] * 2_000)
    for _ in range(100):
        accumulator.update(["a1", "b2"], ["c3"])
        with pytest.warns(SuspiciousEventsWarning, match="no hit"):
            reads += _works_on_arrays(accumulator.compute)
    assert reads < 20


_NEW_CODE = {"accumulator.py", "counts.py", "following.py", "blocks.py", "table.py"}
_LINES = 20
"""Lines of which some are drawn in each run of `tests/run`; `tests/nightly` has every one."""
_EACH = ("ndcg@3", "f1@3", "ctr@3")


class _Line:
    """Does something before one line of the code that follows events: what an interrupt may do."""

    def __init__(self, at: float, action: Callable[[], object]) -> None:
        self.seen, self._at, self._action = 0, at, action

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if Path(frame.f_code.co_filename).name not in _NEW_CODE:
            return None
        if event == "line":
            self.seen += 1
            if self.seen == self._at:
                sys.settrace(None)
                self._action()
        return self


def _graded(accumulator: Accumulator) -> None:
    accumulator.update(["a1", "b2", "c3"], {"b2": 2.0, "d4": 1.0})


def _work(accumulator: Accumulator) -> None:
    """Events and readings: of the table, of means that are made, and of means that are kept."""
    for at in range(4):
        _graded(accumulator)
        for text in _EACH:
            accumulator.read(text)
        if at == 2:
            accumulator.state_dict()


def _counted(lists: int) -> Accumulator:
    accumulator = Accumulator(*_EACH, ids="text")
    accumulator.update_many(
        [Event(recommendations=["a1", "b2", "c3"], interactions={"b2": 2.0, "d4": 1.0})] * lists
    )
    return accumulator


@cache
def _expected(lists: int) -> list[str]:
    return [repr(_counted(lists).read(text)) for text in _EACH]


_SAVED = b"".join(_counted(2).dump())


def _check(accumulator: Accumulator) -> None:
    """Every reading is that of a batch, now and after more events, or the mistake is reported."""
    for at in range(4):
        try:
            if at:
                _graded(accumulator)
            readings = [repr(accumulator.read(text)) for text in _EACH]
        except HalfCountedError:
            accumulator.reset()
            readings = [repr(accumulator.read(text)) for text in _EACH]
        assert readings == _expected(accumulator.lists)


def _raising(error: type[BaseException]) -> Callable[[Accumulator], None]:
    def raise_error(_: Accumulator) -> None:
        raise error

    return raise_error


def _read(accumulator: Accumulator) -> None:
    """As a handler that logs."""
    with suppress(HalfCountedError):
        assert [repr(accumulator.read(text)) for text in _EACH] == _expected(accumulator.lists)


def _count_and_read(accumulator: Accumulator) -> None:
    """As a handler that does what it should not."""
    with suppress(HalfCountedError):
        _graded(accumulator)
        assert [repr(accumulator.read(text)) for text in _EACH] == _expected(accumulator.lists)


def _count_and_read_one(accumulator: Accumulator) -> None:
    """As a handler that does so while another metric is read."""
    with suppress(HalfCountedError):
        _graded(accumulator)
        assert repr(accumulator.read(_EACH[0])) == _expected(accumulator.lists)[0]


def _start_again(accumulator: Accumulator) -> None:
    """As a handler that discards the counts; the change that it interrupts has ended with them."""
    try:
        accumulator.reset()
    except HalfCountedError as error:
        raise AssertionError from error
    assert accumulator.lists == 0


def _load(accumulator: Accumulator) -> None:
    """As a handler that goes back to a saved state."""
    try:
        accumulator.adopt(_SAVED)
    except HalfCountedError as error:
        raise AssertionError from error
    assert [repr(accumulator.read(text)) for text in _EACH] == _expected(2)


@pytest.mark.parametrize(
    "action",
    [
        *(_raising(KeyboardInterrupt), _raising(MemoryError)),
        *(_read, _count_and_read, _count_and_read_one, _start_again, _load),
    ],
)
def test_an_interrupt_at_any_line_leaves_no_wrong_reading(
    action: Callable[[Accumulator], None],
) -> None:
    _run_to_line(math.inf, action)  # what comes once in a process
    lines = _run_to_line(math.inf, action).seen
    assert lines > 500
    # The draw is seeded with each run, whose seed is in its head.
    for at in range(1, lines + 1) if thorough() else random.sample(range(1, lines + 1), _LINES):
        assert _run_to_line(at, action).seen == at


def _run_to_line(at: float, action: Callable[[Accumulator], None]) -> _Line:
    """Count and read with an action before a line; what is read afterwards is right."""
    accumulator = Accumulator(*_EACH, ids="text")
    for _ in range(130):
        _graded(accumulator)
    line = _Line(at, partial(action, accumulator))
    sys.settrace(line)
    try:
        with suppress(KeyboardInterrupt, MemoryError, HalfCountedError):
            _work(accumulator)
    finally:
        sys.settrace(None)
    _check(accumulator)
    return line
