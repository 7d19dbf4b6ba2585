"""Checks of events, from a sample of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from streameval.catalogue.items import Attribute, Popularity
from streameval.catalogue.metric import Metric
from streameval.events import Batch, Event, Id, Interaction, OtherTypes
from streameval.events.previews import are_hidden
from streameval.events.rules import MARKS

FIRST_OBSERVED: Final = 128
"""Events observed of the first batches; of later ones, only a few, at next to no cost."""
_LATER: Final = 16
_EVERY: Final = 4_096
"""After the first events, only the batch that completes so many is observed: reading one event
takes as long as reading 16, and as counting 200."""

_MOST: Final = 1_024
"""So many events halve all counts, so that a change of the events shows."""

_FEWEST: Final = 20
"""Events below which most findings are accidental."""
_FEWEST_MARKS: Final = 3
"""Lists that are as long as their marks are rarely an accident."""
_FEWEST_KINDS: Final = 3
"""Lists of integers alone beside interactions with words alone, or the reverse, match nothing."""

_NEARLY_ALL: Final = 0.9
_PADDED: Final = 0.25
"""Share of the events that end or begin with the same item on both sides, repeated on one."""

_FEWEST_ITEMS: Final = 10
"""With fewer distinct items, one may well be in every list."""
_MOST_TYPES: Final = 3
_MOST_KINDS: Final = 64
"""Most lengths or items counted; those counted least make room."""


_OF_CHANCES: Final = frozenset({"log_loss", "expected_calibration_error"})
"""Metrics that take scores as probabilities."""

_INTEGERS: Final = "integers"
_WORDS: Final = "words"

_UNKNOWN: Final = "unknown "
"""Before the name of an attribute: items shown that it does not have."""

_MANY_UNKNOWN: Final = 0.2
"""Share of the items shown without an entry in an attribute from which there is a warning."""


class DataQualityWarning(NamedTuple):
    """A warning about events.

    Attributes:
        about: what looks wrong, and of what; equal while only numbers of the text change.
        text: a sentence.
    """

    about: tuple[object, ...]
    text: str


class EventChecks:
    """Counts of a sample of the events; they add up, and are not part of a saved state.

    Args:
        attributes: name and values of each attribute of items.
        popularity: of items; None without.

    Example:
        >>> checks = EventChecks()
        >>> for item in range(1, 40):
        ...     checks.observe(Event(recommendations=[item, 0, 0], interactions=[item + 1, 0]))
        >>> print(checks.warning([]))
        item 0 is in 39 of 39 lists and in their interactions: is it padding? End lists with -1
    """

    def __init__(
        self,
        attributes: Sequence[tuple[str, Attribute]] = (),
        popularity: Popularity | None = None,
    ) -> None:
        self.lists = self._hidden_losses = 0
        self._requested_types: set[str] = set()
        self._types: Counter[str] = Counter()
        self._attributes, self._popularity = attributes, popularity
        self._counts: Counter[str] = Counter()
        self._recommended: Counter[int] = Counter()
        self._acted: Counter[int] = Counter()
        self._both: Counter[Id] = Counter()
        self._padded: Counter[Id] = Counter()
        self._items: set[Id] = set()

    def observe(self, event: Event) -> None:
        """Count what looks wrong in a valid event."""
        self.lists += 1
        counts, items, interactions = self._counts, event.recommendations, event.interactions
        if interactions:
            counts["engaged"] += 1
            counts["short"] += 0 < len(items) < len(interactions)
            self._recommended[len(items)] += 1
            self._acted[len(interactions)] += 1
            self._observe_kinds(items, interactions)
            self._observe_items(items, interactions)
            if isinstance(interactions, Mapping):
                counts["gains"] += len(interactions)
                counts["losses"] += sum(gain < 0 for gain in interactions.values())
        if event.positions is not None and len(event.positions) > 1:
            counts["ranked"] += 1
            counts["same rank"] += min(event.positions) == max(event.positions)
        if event.scores is not None and len(event.scores):
            counts["scored"] += 1
            counts["no chances"] += not 0 <= min(event.scores) <= max(event.scores) <= 1
        if self._popularity is not None:
            counts["rated"] += len(items)
            counts["unpopular"] += sum(item not in self._popularity.counts for item in items)
        if self._attributes:
            counts["items"] += len(items)
            for name, attribute in self._attributes:
                counts[f"{_UNKNOWN}{name}"] += sum(item not in attribute for item in items)
        if self.lists > _MOST:
            self.lists //= 2
            for counter in self._counters:
                for key in counter:
                    counter[key] //= 2

    def observe_batch(self, batch: Batch, observed: int | None = None) -> None:
        """Count some events of a batch: its first ones.

        `observed`: events that this and others were given before; by default `lists`, and then
        each batch is observed.
        """
        self._hidden_losses += sum(batch.hidden_losses or ())
        if batch.other_types is not None:
            self._observe_types(batch.other_types, batch.typed or ())
        before = self.lists if observed is None else observed
        is_due = observed is None or before % _EVERY + len(batch) >= _EVERY
        events = min(max(_LATER if is_due else 0, FIRST_OBSERVED - before), len(batch))
        if not events:
            return
        # Hits are not observed, and take the longest to select.
        batch = replace(batch, matches=None)
        first = batch if events == len(batch) else batch.rows(0, events)
        for event in first.events():
            self.observe(event)

    def add(self, other: EventChecks) -> None:
        """Add the counts of other events."""
        self.lists += other.lists
        self._hidden_losses += other._hidden_losses
        self._requested_types |= other._requested_types
        self._types.update(other._types)
        for counter, other_counter in zip(self._counters, other._counters, strict=True):
            counter.update(other_counter)
            _prune(counter)
        self._items.update(islice(other._items, _FEWEST_ITEMS))

    def copy(self) -> EventChecks:
        """An independent copy."""
        duplicate = EventChecks(self._attributes, self._popularity)
        duplicate.add(self)
        return duplicate

    def content(self) -> list[Any]:
        """The counts as plain values, for `from_content`."""
        entries = [[[key, count] for key, count in counter.items()] for counter in self._counters]
        return [self.lists, entries, list(self._items), self._hidden_losses]

    @classmethod
    def from_content(cls, content: Sequence[Any]) -> EventChecks:
        """Restore the checks of a `content`."""
        checks = cls()
        if content:
            checks.lists, entries, items, checks._hidden_losses = content
            for counter, pairs in zip(checks._counters, entries, strict=True):
                counter.update(dict(pairs))
            checks._items.update(items)
        return checks

    @property
    def unknown_items(self) -> dict[str, float]:
        """Attribute -> the share of the items shown that it does not have; empty without items.

        Example:
            >>> checks = EventChecks([("genre", Attribute({"a": "news"}))])
            >>> checks.observe(Event(recommendations=["a", "x", "y", "a"], interactions=[]))
            >>> checks.unknown_items
            {'genre': 0.5}
        """
        items = self._counts["items"]
        return {
            name.removeprefix(_UNKNOWN): count / items
            for name, count in sorted(self._counts.items())
            if items and name.startswith(_UNKNOWN)
        }

    def warning(self, metrics: Iterable[Metric]) -> str | None:
        """A warning if the events look wrong, or None.

        `metrics`: those read from the events; some take scores as probabilities.
        """
        advice = self.advice(metrics)
        return None if advice is None else advice.text

    def advice(self, metrics: Iterable[Metric]) -> DataQualityWarning | None:
        """The warning, with what it is about."""
        return next(self._advices([*metrics]), None)

    def _advices(self, metrics: Sequence[Metric]) -> Iterator[DataQualityWarning]:
        counts = self._counts
        engaged, marks, aligned = counts["engaged"], counts["marks"], counts["aligned"]
        for what, others in ((_INTEGERS, "words"), (_WORDS, "integers")):
            if self._nearly(counts[what], counts["both"], _FEWEST_KINDS):
                text = (
                    f"{counts[what]:,} lists with interactions and no hit: do recommendations and "
                    f"interactions use the same ids? The lists have only {what}, and their "
                    f"interactions only {others}"
                )
                yield DataQualityWarning(("ids",), text)
        if self._nearly(marks, engaged, _FEWEST_MARKS if aligned == marks else _FEWEST):
            text = (
                f"{marks:,} of {engaged:,} interactions are only 0 and 1, and their lists have "
                "other items: are they marks? Give the ids of the items chosen"
            )
            yield DataQualityWarning(("marks",), text)
        both = self._both.most_common(1) if engaged >= _FEWEST else []
        for item, count in both if len(self._items) >= _FEWEST_ITEMS else ():
            if count >= _NEARLY_ALL * engaged or self._padded[item] >= _PADDED * engaged:
                where = f"is in {count:,} of {engaged:,} lists and in their interactions"
                which = "an item" if are_hidden() else f"item {item!r}"
                text = f"{which} {where}: is it padding? End lists with -1"
                yield DataQualityWarning(("padding", item), text)
        if self._nearly(counts["short"], engaged) and not self._are_cut_lists():
            text = (
                f"{counts['short']:,} of {engaged:,} lists are shorter than their interactions: "
                "are recommendations and interactions swapped?"
            )
            yield DataQualityWarning(("swapped",), text)
        if self._nearly(counts["same rank"], counts["ranked"]):
            text = (
                f"{counts['same rank']:,} of {counts['ranked']:,} lists have all items at one "
                "position: do positions hold ranks?"
            )
            yield DataQualityWarning(("positions",), text)
        if counts["no chances"] and any(m.definition.name in _OF_CHANCES for m in metrics):
            text = (
                f"{counts['no chances']:,} of {counts['scored']:,} lists have scores outside 0 to "
                "1, which log_loss and expected_calibration_error take as probabilities: convert "
                "them, for example with a sigmoid"
            )
            yield DataQualityWarning(("chances",), text)
        unknown = counts["unpopular"] if self.lists >= _FEWEST else 0
        by_popularity = any("popularity" in metric.definition.inputs for metric in metrics)
        if by_popularity and unknown and unknown == counts["rated"]:
            text = (
                f"none of {unknown:,} items shown has a popularity: do lists and popularity use "
                "the same ids?"
            )
            yield DataQualityWarning(("popularity",), text)
        shares = self.unknown_items if self.lists >= _FEWEST else {}
        for name in sorted({name for metric in metrics for name in metric.attributes_read}):
            if shares.get(name, 0.0) > _MANY_UNKNOWN:
                text = (
                    f"{shares[name]:.0%} of the items shown are not in the attribute {name}: do "
                    "lists and attribute use the same ids, and is its table up to date?"
                )
                yield DataQualityWarning(("attribute", name), text)
        if (missing := self._missing_types()) is not None:
            yield DataQualityWarning(("types",), missing)
        if self._hidden_losses:
            text = (
                f"lists with gains above and below 0 for one item: {self._hidden_losses:,}; the "
                'largest gain counts, and combine = "sum" subtracts the losses'
            )
            yield DataQualityWarning(("hidden losses",), text)
        without = sorted({metric.name for metric in metrics if metric.leaves_out_losses})
        if counts["losses"] and without:
            text = (
                f"{counts['losses']:,} of {counts['gains']:,} gains are below 0: "
                f"{' and '.join(without)} leaves them out, value_per_list subtracts them"
            )
            yield DataQualityWarning(("losses",), text)

    def _nearly(self, few: int, many: int, fewest: int = _FEWEST) -> bool:
        return many >= fewest and few >= _NEARLY_ALL * many

    def _are_cut_lists(self) -> bool:
        """True if all lists were cut at one length, and users chose more: usual offline."""
        ((length, same),) = self._recommended.most_common(1)
        ((_, alike),) = self._acted.most_common(1)
        enough = _NEARLY_ALL * self._counts["engaged"]
        return length > 1 and same >= enough and alike < enough

    def _observe_kinds(self, items: Sequence[Id], interactions: Any) -> None:
        kinds = {*map(_kind, items)}, {*map(_kind, interactions)}
        self._counts["both"] += bool(items)
        if len(kinds[0]) == len(kinds[1]) == 1 and kinds[0] != kinds[1]:
            self._counts[kinds[0].pop()] += 1

    def _observe_items(self, items: Sequence[Id], interactions: Any) -> None:
        if not isinstance(interactions, Mapping) and MARKS.issuperset(interactions):
            aligned = len(interactions) == len(items) > 1 and not MARKS.issuperset(items)
            self._counts["marks"] += aligned or MARKS.isdisjoint(items)
            self._counts["aligned"] += aligned
        for item in set(items).intersection(interactions):
            self._both[item] += 1
        if items and isinstance(interactions, Sequence):
            ends = (_repeated_end(items, interactions, end) for end in (-1, 0))
            for item in set(chain.from_iterable(ends)):
                self._padded[item] += 1
        if len(self._items) < _FEWEST_ITEMS:
            self._items.update(islice(items, _FEWEST_ITEMS))
        for counter in self._counters[1:]:
            _prune(counter)

    @property
    def _counters(self) -> tuple[Counter[Any], ...]:
        return self._counts, self._recommended, self._acted, self._both, self._padded

    def _observe_types(
        self,
        other_types: Iterable[OtherTypes | None],
        typed: Iterable[Sequence[Interaction]],
    ) -> None:
        for others in filter(None, other_types):
            self._requested_types.update(others.counted)
            self._types.update(others.uncounted)
        self._types.update(each.type or "" for of_event in typed for each in of_event)
        _prune(self._types)

    def _missing_types(self) -> str | None:
        """Named types that no interaction has, and those that there are instead."""
        missing = sorted(self._requested_types.difference(self._types))
        if not missing or not self._types:
            return None
        if len(missing) < len(self._requested_types) and self._types.total() < _FEWEST:
            return None
        named, counts = ", ".join(map(repr, missing)), self._types.most_common(_MOST_TYPES)
        frequent = ", ".join(f"{name!r:.80} ({count:,})" for name, count in counts)
        if are_hidden():
            frequent = "hidden"
        return (
            f"types under [event] name {named}, which no interaction has; the most frequent types "
            f"are {frequent}"
        )


def _kind(item: Id) -> str:
    return _INTEGERS if isinstance(item, int) or item.removeprefix("-").isdecimal() else _WORDS


def _repeated_end(items: Sequence[Id], interactions: Sequence[Id], end: int) -> list[Id]:
    """The item at this end (-1 or 0) of both, if one of them repeats it there."""
    item, inner = items[end], (slice(-2, None) if end else slice(0, 2))
    if interactions[end] != item:
        return []
    return [item] if any(list(ids[inner]) == [item, item] for ids in (items, interactions)) else []


def _prune(counter: Counter[Any]) -> None:
    if len(counter) > _MOST_KINDS:
        retained = dict(counter.most_common(_MOST_KINDS // 2))
        counter.clear()
        counter.update(retained)
