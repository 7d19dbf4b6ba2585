"""Looks for every name of the configuration in a sample of the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from streameval.config.config import Config
from streameval.config.pipeline import texts_of
from streameval.decoding.fields import EventFields
from streameval.decoding.framing import ToText
from streameval.decoding.invalid import Refusal
from streameval.decoding.paths import FAILURES, Path, compile_path
from streameval.decoding.repeated_keys import RepeatedKeys
from streameval.decoding.values import MISSING_LABEL, label_text
from streameval.engine.analysis import Expected, configured
from streameval.engine.first_records import FIRST, REFUSED, FirstRecords, TakenRecords, Unmatched
from streameval.events.previews import are_hidden, preview
from streameval.events.printable import first_names
from streameval.events.spelling import suggestion
from streameval.join.attribution import AttributionOptions, is_unnamed
from streameval.sources.schemas.records import Schemas

_RARE: Final = 0.1
"""Planned share of users below which the first records may well lack a value."""

NAMELESS_AFTER: Final = 3_600.0
"""Seconds without a name that was there before, after which that is reported."""

_PAUSE: Final = 30.0
"""Seconds between two samples of an hour."""

_MOST_NAMES: Final = 8
_DEPTH: Final = 3
"""Levels of nested objects whose names are listed."""


class _ConfiguredField(NamedTuple):
    """A configured field; `label`: the label or segment that it holds, or None."""

    key: str
    path: Path
    label: str | None = None


class _StreamSample:
    """The fields of some records of one stream."""

    def __init__(self, fields: Sequence[_ConfiguredField], to_text: ToText | None) -> None:
        self.fields = fields
        self._to_text = to_text
        self.records = 0
        self.counts = Counter[str]()
        self.names = Counter[str]()
        self.texts = Counter[str]()
        self.examples: dict[str, Any] = {}
        self.values = {field.label: Counter[str]() for field in fields if field.label is not None}
        self.keys: dict[str, set[str]] = {}
        self.repeated = RepeatedKeys()

    def add(self, values: Iterable[bytes]) -> None:
        """Read records; those that are not objects count as records without a field."""
        for value in values:
            self.records += 1
            try:
                text = value if self._to_text is None else self._to_text(value)
                record = msgspec.json.decode(text)
            except (Refusal, *FAILURES):
                continue
            self.repeated.search(0, [bytes(text)])
            if isinstance(record, dict):
                self._add(record)

    def _add(self, record: dict[str, Any]) -> None:
        self.names.update(_names(record, "", 1 if are_hidden() else _DEPTH))
        self.texts.update(name for name, value in record.items() if _is_json_text(value))
        for field in self.fields:
            try:
                value = field.path.of(record)
                label = None if field.label is None else label_text(value)
            except Refusal:
                continue
            if label is not None and field.label is not None:
                self.values[field.label][label] += 1
            if value is None or label == MISSING_LABEL:
                continue
            self.counts[field.key] += 1
            self.examples.setdefault(field.key, value)
            self.keys.setdefault(field.key, set()).add(str(value))

    def absent(self, among: str) -> Iterator[Unmatched]:
        """The fields that no record has; `among`: the records, in words."""
        for field in self.fields:
            if not self.counts[field.key]:
                text = f"{field.key}: none of {among} has the field {field.path.text!r}."
                yield Unmatched(field.key, text + self._instead(field.path), field.label)

    def absent_values(self, expected: Iterable[Expected], among: str) -> Iterator[Unmatched]:
        """The values of labels that no record has, of labels that some record has."""
        for entry in expected:
            counts = self.values.get(entry.label, Counter[str]())
            values = {value: count for value, count in counts.items() if value != MISSING_LABEL}
            if values and entry.value not in values:
                text = f"{entry.key}: none of {among} has {entry.label} = {entry.value!r}."
                hint = "" if are_hidden() else suggestion(entry.value, values)
                text += f"{hint} Their values are {_counts_text(values)}."
                yield Unmatched(entry.key, text, entry.label, entry.value)

    def has(self, name: Unmatched) -> bool:
        """True if a record has what a configured name looks for."""
        if name.label is None or name.value is None:
            return self.counts[name.key] > 0
        return self.values[name.label][name.value] > 0

    def _instead(self, path: Path) -> str:
        last = path.text.rpartition(".")[2]
        elsewhere = [name for name in self.names if name.rpartition(".")[2] == last]
        if elsewhere:
            return f" They have {' and '.join(map(repr, sorted(elsewhere)[:2]))}."
        if self.texts:
            name = self.texts.most_common(1)[0][0]
            return f" Their field {name!r} is text that holds JSON; write it as an object."
        hint = suggestion(path.text, self.names)
        names = sorted(self.names, key=lambda name: (name.count("."), -self.names[name], name))
        have = f" They have {first_names(names, _MOST_NAMES)}." if names else ""
        return f"{hint}{have}"

    def line(self, field: _ConfiguredField) -> str:
        """The number of records that have a field, and an example or its values."""
        if field.label is not None:
            values = {v: n for v, n in self.values[field.label].items() if v != MISSING_LABEL}
            text = _counts_text(values)
        else:
            examples = [self.examples[field.key]] if field.key in self.examples else []
            text = ", ".join(f"for example {_example(example)}" for example in examples)
        share = f"{self.counts[field.key]:,} of {self.records:,}"
        return ", ".join(filter(None, (f"{field.key}: {field.path.text} in {share}", text)))


class _LaterHours:
    """Looks for names in samples of each hour, after the first records had all of them.

    `now`: when that was found, monotonic seconds.
    """

    def __init__(self, sample: Callable[[], _StreamSample], now: float) -> None:
        self._make, self._sample, self._since = sample, sample(), now
        self._next = now + _PAUSE
        self.absent: list[Unmatched] = []

    def is_due(self, now: float) -> bool:
        """True if it is time for another sample."""
        return now >= self._next

    def note_sampled(self, now: float) -> None:
        """Pause until the next sample."""
        self._next = now + _PAUSE

    def add(self, values: Sequence[bytes], expected: Iterable[Expected], now: float) -> None:
        """Read records, and judge the hour when it is over."""
        self._sample.add(values)
        self.absent = [entry for entry in self.absent if not self._sample.has(entry)]
        if now - self._since < NAMELESS_AFTER:
            return
        if self._sample.records >= FIRST:
            among = f"{self._sample.records:,} valid records of an hour"
            entries = [*self._sample.absent(among), *self._sample.absent_values(expected, among)]
            self.absent = [entry._replace(is_later=True) for entry in entries]
        self._sample, self._since = self._make(), now


class FieldCheck:
    """Looks for the configured names in the records of each stream.

    Raises:
        ConfigError: a path is invalid.
    """

    def __init__(self, config: Config, schemas: Schemas | None = None) -> None:
        fields, texts = _fields_of(config), texts_of(config, schemas)
        self._new = [partial(_StreamSample, *of) for of in zip(fields, texts, strict=True)]
        self._valid, self._refused = ([new() for new in self._new] for _ in range(2))
        self._later: dict[int, _LaterHours] = {}
        self._options = config.attribution
        dimensions = config.dimensions()
        self._expected = [
            entry
            for analysis, settings in configured(config)
            for entry in analysis.expects(settings)
            if entry.label in dimensions
        ]

    @property
    def _common(self) -> list[Expected]:
        return [entry for entry in self._expected if entry.share >= _RARE]

    def observe(self, first: FirstRecords, now: float) -> tuple[Unmatched, ...]:
        """The names that no record has so far, of the streams with enough records.

        Once all are found, those that none of at least 100 records of a whole hour has.

        `now`: monotonic seconds.
        """
        unmatched, taken = list[Unmatched](), first.take()
        for number, records in enumerate(taken):
            expected = self._common if number == 0 else []
            later = self._later.get(number)
            if later is not None:
                later.add(records.valid, expected, now)
                unmatched += later.absent
                again = bool(later.absent)
                if not again and later.is_due(now):
                    later.note_sampled(now)
                    again = True
                first.open(number, again=again)
                continue
            valid, refused = self._valid[number], self._refused[number]
            valid.add(records.valid)
            refused.add(records.refused)
            absent = list[Unmatched]()
            if valid.records >= FIRST:
                among = f"the first {FIRST} valid records"
                absent += [*valid.absent(among), *valid.absent_values(expected, among)]
                if not absent:
                    self._later[number] = _LaterHours(self._new[number], now)
                    first.open(number, again=False)
            elif not valid.records and refused.records >= REFUSED:
                absent += refused.absent(f"the first {REFUSED} records, which are invalid,")
            unmatched += absent
        return tuple(unmatched)

    def add(self, taken: Sequence[TakenRecords]) -> None:
        """Read records of each stream."""
        for valid, refused, records in zip(self._valid, self._refused, taken, strict=True):
            valid.add(records.valid)
            refused.add(records.refused)

    def repeated(self) -> Iterator[str]:
        """A sentence for each name that stands twice in an object of the records read here."""
        repeated = RepeatedKeys()
        for sample in (*self._valid, *self._refused):
            repeated.add(sample.repeated.names)
        yield from repeated.warnings()

    def lines(self) -> Iterator[str]:
        """The fields of valid records: in how many records each is, and an example."""
        for number, sample in enumerate(self._valid):
            for field in sample.fields:
                if sample.counts[field.key] or 0 < sample.records < REFUSED:
                    yield sample.line(field)
            for entry in self._expected if number == 0 else ():
                if count := sample.values[entry.label][entry.value]:
                    where = f"{entry.label} = {entry.value}"
                    yield f"{entry.key}: {where} in {count:,} of {sample.records:,}"
        yield from self._key_lines()
        yield from self._type_lines()

    def absent(self) -> Iterator[Unmatched]:
        """The names that no record of a sample has; too few records say nothing."""
        for number, (valid, refused) in enumerate(zip(self._valid, self._refused, strict=True)):
            sample, what = (valid, "") if valid.records else (refused, "invalid ")
            if sample.records >= REFUSED:
                among = f"{sample.records:,} {what}records"
                yield from sample.absent(among)
                yield from sample.absent_values(self._common, among) if number == 0 else ()

    def _key_lines(self) -> Iterator[str]:
        """The number of keys of each stream of interactions that impressions have, too."""
        if self._options is None:
            return
        name = "request_id" if self._options.key == "request_id" else "user"
        impression_keys = self._valid[0].keys.get(_impression_key(name), set())
        for number, sample in enumerate(self._valid[1:]):
            key = f"attribution.interactions[{number}].{name}"
            if keys := sample.keys.get(key):
                shared_keys = keys & impression_keys
                share = f"{len(shared_keys):,} of {len(keys):,} are in the sample of impressions"
                none = "" if shared_keys else "; if they never are, no interaction counts"
                yield f"{key}: {share}{none}"

    def _type_lines(self) -> Iterator[str]:
        """The types of interactions that do not count, although nothing says to ignore them."""
        streams = () if self._options is None else self._options.interactions
        for number, (stream, sample) in enumerate(zip(streams, self._valid[1:], strict=True)):
            key = f"attribution.interactions[{number}].type"
            others = [name for name in sorted(sample.keys.get(key, ())) if is_unnamed(stream, name)]
            if others:
                listed = first_names([*map(repr, others)], _MOST_NAMES)
                named = f"{len(others)} of those found" if are_hidden() else listed
                yield f"{key}: not in types, so not counted: {named}"


def _impression_key(name: str) -> str:
    return "event.user" if name == "user" else "attribution.request_id"


def streams_of(config: Config) -> dict[str, int]:
    """Topic or file -> number of its stream; empty if no streams are joined."""
    streams = [] if config.attribution is None else config.attribution.streams
    return {name: number for number, names in enumerate(streams) for name in names}


def _fields_of(config: Config) -> list[list[_ConfiguredField]]:
    """The fields of each stream that the configuration names, or that its metrics need."""
    options = config.attribution
    fields = config.event if options is None else options.fields(config.event)
    unread = set() if config.by_user or _by_user(options) else {"user"}
    unread |= {"gains"} if fields.gains == EventFields().gains else set()
    unread |= set() if options is None else {"interactions", "gains"}
    events = [
        _field(config, key, path)
        for key, path in fields.paths(config.dimensions())
        if key not in unread
    ]
    return [events, *_interaction_fields(config, options)]


def _by_user(options: AttributionOptions | None) -> bool:
    return options is not None and options.key == "user_item"


def _field(config: Config, key: str, text: str) -> _ConfiguredField:
    path = compile_path(text, key, lists=True)
    table, _, name = key.partition(".")
    if table == "labels" and name:
        where = "segments" if name in config.segments else "labels"
        renamed = name in config.event.labels
        return _ConfiguredField(f"event.{key}" if renamed else f"{where}.{name}", path, name)
    if key == "event_id" and config.attribution is not None:
        return _ConfiguredField("attribution.request_id", path)
    return _ConfiguredField(f"event.{key}", path)


def _interaction_fields(
    config: Config, options: AttributionOptions | None
) -> Iterator[list[_ConfiguredField]]:
    for number, stream in enumerate(() if options is None else options.interactions):
        paths = {
            "user" if _by_user(options) else "request_id": (
                stream.user or config.event.user if _by_user(options) else stream.request_id
            ),
            "item": stream.item,
            "time": stream.time or config.event.time,
            "event_id": stream.event_id,
            "type": stream.type if stream.types else None,
            "gain": stream.gain,
        }
        yield [
            _ConfiguredField(
                f"attribution.interactions[{number}].{key}", compile_path(path, key, lists=True)
            )
            for key, path in paths.items()
            if path is not None
        ]


def _names(record: dict[str, Any], prefix: str, depth: int) -> Iterator[str]:
    """The paths of the fields of a record, those of nested objects included."""
    for name, value in record.items():
        yield prefix + name
        if isinstance(value, dict) and depth > 1:
            yield from _names(value, f"{prefix}{name}.", depth - 1)


def _is_json_text(value: object) -> bool:
    """True if a value is text that holds a JSON object."""
    try:
        return isinstance(value, str) and isinstance(msgspec.json.decode(value), dict)
    except FAILURES:
        return False


def _counts_text(values: dict[str, int]) -> str:
    """The most frequent values of a label, with the number of records.

    Example:
        >>> _counts_text({"a": 3, "b": 12})
        'b (12), a (3)'
    """
    if are_hidden():
        return f"{len(values):,} values" if values else ""
    frequent = sorted(values.items(), key=lambda pair: (-pair[1], pair[0]))
    return first_names([f"{name} ({count:,})" for name, count in frequent], _MOST_NAMES)


def _example(value: object) -> str:
    """A value as JSON; of a list, its first element."""
    if isinstance(value, list):
        if not value:
            return "[]"
        return f"[{preview(value[0])}{', ...' * (len(value) > 1)}]"
    return preview(value)
