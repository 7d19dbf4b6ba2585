"""Options of a caller for files and frames; how messages name them, and where they go."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from streameval.decoding.fields import TimeUnit
from streameval.events import Combine
from streameval.events.errors import StreamevalError, UsageError, named_fields
from streameval.events.printable import first_names
from streameval.events.problems import problems
from streameval.inference.days import TimeZoneError, checked_time_zone
from streameval.statistics.intervals import Intervals

Form: TypeAlias = Literal["table", "json", "csv", "parquet", "arrow", "trec", "mind"]
"""Form of files whose names or first lines do not tell; "table" is any but trec_eval's."""

Ties: TypeAlias = Literal["arrival", "id_desc", "id_asc", "worst", "random"]
"""Which of several equal scores comes first: the earlier row, the larger id, the smaller id, the
item with the smaller gain, or the one with the smaller hash of user and item."""


class Setting(NamedTuple):
    """A setting that a message names, as its reader writes it.

    Attributes:
        name: the argument.
        value: None to name the argument alone; "" says that there is none.
        key: of an argument that is a mapping.

    Example:
        >>> str(Setting("ties", "arrival")), Setting("ties", "arrival").for_command()
        ("ties='arrival'", '--ties arrival')
        >>> str(column("rating", "stars")), column("rating", "stars").for_command()
        ("columns={'rating': 'stars'}", '--column rating=stars')
    """

    name: str
    value: str | int | None = None
    key: str | None = None

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.name}=" if self.key is None else f"{self.name}={{{self.key!r}: ...}}"
        value = repr(self.value) if self.value or self.name == "separator" else "None"
        return f"{self.name}={value if self.key is None else f'{{{self.key!r}: {value}}}'}"

    def for_command(self) -> str:
        """The option of the command line."""
        if (self.name, self.key) == ("columns", "time"):
            return f"--time {self.value}"
        name = {"columns": "column", "baseline": "control"}.get(self.name, self.name)
        option = f"--{name.replace('_', '-')}"
        if self.value is None:
            return option
        value = str(self.value) if self.key is None else f"{self.key}={self.value}"
        if "\t" in value:
            quoted = "$'" + value.replace("\t", "\\t") + "'"
        else:
            quoted = value if re.sub(r"[=_.-]", "", value).isalnum() else f"'{value}'"
        return f"{option} {quoted}"


def column(field: str, name: str = "NAME") -> Setting:
    """The setting that names the column of a field; with an empty name, that it has none."""
    return Setting("columns", name, field)


_NAMES: Final = frozenset(
    {
        *("recommendations", "truth", "exclude", "by", "every", "columns", "time_unit"),
        *("time_zone", "config", "separator", "form", "header", "delimiter", "ties", "method"),
        *("processes", "catalog"),
        *("impressions", "interactions", "attribution"),
        *("label", "baseline", "within", "since", "shares", "combine", "users"),
    }
)
"""Settings that a sentence may name."""

_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?:\.([\w.]+))?(?:=([^{}]*))?\}")


class Note:
    """A sentence that names settings, as `{ties}`, `{ties=worst}` or `{columns.user=NAME}`.

    Args:
        text: has no word of a caller, such as a file's name, which may have braces.
        values: the words, and the settings that depend on them, by the name that stands for each.

    Example:
        >>> message = Note("{path}: give {field} or {by}.", path="{by}.csv", field=column("item"))
        >>> str(message)
        "{by}.csv: give columns={'item': 'NAME'} or by=."
        >>> message.for_command()
        '{by}.csv: give --column item=NAME or --by.'
    """

    def __init__(self, text: str, /, **values: Setting | str) -> None:
        self.text, self.values = text, values

    def __str__(self) -> str:
        return self._message(str)

    def for_command(self) -> str:
        """The sentence as the command line says it."""
        return self._message(Setting.for_command)

    def _message(self, form: Callable[[Setting], str]) -> str:
        def named(match: re.Match[str]) -> str:
            name, key, value = match.groups()
            if key is None and value is None and name in self.values:
                setting = self.values[name]
                return setting if isinstance(setting, str) else form(setting)
            return form(Setting(name, value, key)) if name in _NAMES else match[0]

        return _PLACEHOLDER.sub(named, self.text)


class InputError(UsageError):
    """The input cannot be evaluated as it is; the message names settings that help."""

    def __init__(self, text: str, /, **values: Setting | str) -> None:
        self.note = Note(text, **values)
        super().__init__(str(self.note))

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), **self.note.values), (self.note.text,)


def for_command(text: object) -> str:
    """A message, or an error, as the command line says it."""
    note = text.note if isinstance(text, InputError) else text
    return note.for_command() if isinstance(note, Note) else str(text)


def lines_for_command(error: StreamevalError) -> Sequence[str]:
    """The sentences of an error, as the command line says them."""
    return [for_command(error)] if isinstance(error, InputError) else error.lines


class _PlainOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options that are text, numbers, lists or tables."""

    by: Sequence[str] = ()
    every: str | None = None
    columns: Mapping[str, str | None] = {}
    time_unit: TimeUnit | None = None
    time_zone: str | None = None
    separator: Mapping[str, str] = {}
    form: Form | None = None
    header: Sequence[str] | None = None
    delimiter: str | None = None
    ties: Ties | None = None
    combine: Combine | None = None
    config: str | None = None
    processes: Annotated[int, Meta(ge=1)] = 1


class Options(_PlainOptions, frozen=True, kw_only=True):
    """Options for reading, splitting and counting: the arguments of `evaluate`.

    Attributes:
        metrics: texts, in order; those of `config` if there are none.
        separator: between the ids of a cell; of each column, by its name, or of all, with "".
        inputs: catalog, popularity, similarity, attributes, examination and user_key, by name.
        config: path of a configuration.

    Raises:
        InputError: a value is not allowed.
    """

    metrics: Sequence[str] = ()
    inputs: Mapping[str, Any] = {}
    intervals: Intervals | None = None

    def separator_of(self, column_name: str) -> str | None:
        """Separator of the ids in the cells of a column; None to detect it from the cells."""
        return self.separator.get(column_name, self.separator.get(""))

    def __post_init__(self) -> None:
        values = {name: getattr(self, name) for name in _PlainOptions.__struct_fields__}
        for key, problem in problems(_PlainOptions, values):
            raise InputError("{setting}: {problem}", setting=Setting(key), problem=problem)
        try:
            checked_time_zone(self.time_zone)
        except TimeZoneError as error:
            raise InputError("{time_zone}: {problem}", problem=error.problem) from None


def separators_of(texts: Iterable[str]) -> dict[str, str]:
    """Separators by column, from "|" (for every column, with the key "") and "column=|".

    Example:
        >>> separators_of(["|", "clicks=;", "titles=", "="])
        {'': '=', 'clicks': ';', 'titles': ''}
    """
    separators: dict[str, str] = {}
    for text in texts:
        name, is_named, separator = text.partition("=")
        separators |= {name: separator} if name and is_named else {"": text}
    return separators


OF_FILES: Final = ("separator", "form", "header", "delimiter")
"""Options of how cells and files are read."""


Named: TypeAlias = tuple[str, str | None]
"""A setting: its name, and its key if it is a mapping."""

_IDLE: Final = {
    "columns": "no event or row has it, or nothing counted needs it",
    "time_unit": "no number or text is read as event time",
    "time_zone": "nothing that is counted here has days",
    "separator": "no cell that is read as ids has it",
    "header": "each file has names in its first line, or a form with known columns",
    "delimiter": "no first line has it",
    "ties": "the recommendations have no scores to be equal",
    "combine": "no gains are read, of which an item may have several",
    "processes": "one process counts what cannot be split, such as one file of text, or two tables",
    "catalog": "no metric here reads it",
    "user_key": "no users are counted; give a metric over users or intervals",
}
"""Why a setting changed nothing; inputs of metrics as the catalogue."""


def _named_settings(options: Options) -> dict[Named, Setting]:
    """The settings that may have no effect, by name."""
    named: dict[Named, Setting] = {
        ("columns", field): column(field, name or "") for field, name in options.columns.items()
    }
    for key, sign in options.separator.items():
        named["separator", key] = Setting("separator", sign, key or None)
    for name in ("time_unit", "time_zone", "delimiter", "ties", "combine"):
        if (text := getattr(options, name)) is not None:
            named[name, None] = Setting(name, text)
    if options.header is not None:
        named["header", None] = Setting("header", ",".join(options.header))
    if options.processes > 1:
        named["processes", None] = Setting("processes", str(options.processes))
    for name, value in options.inputs.items():
        keys = [*value] if name == "attributes" else [None]
        named |= {(name, key): Setting(name, None, key) for key in keys}
    return named


def idle_notes(options: Options, used: Collection[Named]) -> Iterator[Note]:
    """Notes on the settings of a caller that had no effect.

    `used`: those that decided something, when all was read and counted.
    """
    for at, setting in _named_settings(options).items():
        if at not in used:
            why = _IDLE.get(at[0], _IDLE["catalog"])
            if at[0] == "separator" and not options.separator[at[1] or ""]:
                why = "no cell that is read as ids looks like a list"
            # A field that is named and not there is not looked for under its usual name.
            what = "is not read" if at[0] == "columns" else "changes nothing"
            yield Note("{setting} " + what + ": {why}.", setting=setting, why=why)


def refuse_options(options: Options, names: Sequence[str], why: str) -> None:
    """Refuse options of these names, which would be taken and do nothing."""
    for name in names:
        if getattr(options, name):
            raise InputError("{setting}{why}", setting=Setting(name), why=why)


NOTHING_TO_EXCLUDE: Final = "{exclude} leaves nothing out: it has no items."

_MOST_NAMED: Final = 3


@named_fields
class NoEventsError(StreamevalError):
    """There is no valid event, so there is no value."""

    files: Sequence[str]


def no_events(files: Sequence[str]) -> NoEventsError:
    """The error for files without a valid event; its message names the first ones."""
    named = first_names(files, _MOST_NAMED)
    return NoEventsError(f"no valid event in {named}.", files=files)


ShowProgress: TypeAlias = Callable[[int | None], AbstractContextManager[Callable[[int, int], None]]]
"""Begins with the number of bytes, None if unknown; then takes bytes read and events counted."""


class Surroundings(NamedTuple):
    """Callbacks while events are counted: warnings, and progress."""

    note: Callable[[Note | str], None]
    progress: ShowProgress

    def about(self, name: str) -> Surroundings:
        """The surroundings with a name before each warning."""

        def named(warning: Note | str) -> None:
            if isinstance(warning, str):
                self.note(f"{name}: {warning}")
            else:
                # One key more for each name: surroundings that have a name may be given another.
                key = f"about_{len(warning.values)}"
                self.note(Note("{" + key + "}: " + warning.text, **{key: name}, **warning.values))

        return self._replace(note=named)


@contextmanager
def as_usage_error(*kinds: type[StreamevalError]) -> Iterator[None]:
    """Turn these errors, such as a missing file, into usage errors."""
    try:
        yield
    except kinds as error:
        raise UsageError(str(error)) from error
