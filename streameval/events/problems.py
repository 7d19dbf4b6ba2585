"""What is wrong in a table of a configuration, or a Struct made in Python, key by key."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import cache, partial
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import inspect
from msgspec.structs import FieldInfo

from streameval.events.errors import ConfigError
from streameval.events.ids import is_number
from streameval.events.spelling import nearest, suggestion

Struct: TypeAlias = type[msgspec.Struct]

_LONGEST: Final = 60
_EXAMPLES: Final = {
    "metrics": 'metrics = ["ndcg@10"]',
    "source": '[source] with type = "kafka", "files" or "simulator"',
    "source.topics": 'topics = ["recommendation-events"]',
    "source.paths": 'paths = ["events.ndjson.gz"]',
    "source.type": 'type = "kafka"',
    "windows.spans": 'spans = ["5m", "1h", "24h"]',
    "metric.name": 'name = "item_coverage@10"',
    "state.path": 'path = "state"',
    "registry.url": 'url = "http://registry:8081"',
    "popularity.path": 'path = "popularity.csv"',
    "attribution.impressions": 'impressions = "impressions"',
    "attribution.interactions": '[[attribution.interactions]] with source = "clicks"',
    "attribution.interactions.source": 'source = "clicks"',
}


class Problem(NamedTuple):
    """What is wrong with a key, and what to do; the key is a path like "source.topics[0]"."""

    key: str
    text: str


def problems(struct: Struct, table: Mapping[str, Any], *, strict: bool = True) -> list[Problem]:
    """Everything that keeps a table from being a Struct: of each table, unknown keys first.

    `strict`: whether text is never read as a number or a boolean.

    Example:
        >>> from streameval.config.tables import WindowsOptions
        >>> for problem in problems(WindowsOptions, {"spans": "5m", "pain": "1m"}):
        ...     print(f"{problem.key}: {problem.text}")
        pain: unknown key. Did you mean 'pane' or 'spans'? Allowed here: spans, lateness, pane.
        spans: found "5m"; give a list.
    """
    return list(_Search(dict(_tables(struct, table)), strict).in_value(struct, table, ""))


def check_types(struct: msgspec.Struct, more: Iterable[tuple[str, str]] = ()) -> None:
    """Refuse values that a table of a file could not have: msgspec only checks what it decodes.

    For `__post_init__`; `more`: key and problem of what the types cannot express, found lazily.

    Raises:
        ConfigError: a field does not have its type, or there is a problem.

    Example:
        >>> from streameval.decoding.fields import EventFields
        >>> EventFields(time_unit="ms").time_unit
        'ms'
        >>> EventFields(ids="text")
        Traceback (most recent call last):
        ...
        streameval.events.errors.ConfigError: ids: found "text"; allowed are 'string', 'integer'.
    """
    unchecked = _without_checks(type(struct))
    for name, value in msgspec.structs.asdict(struct).items():
        try:
            plain = {name: msgspec.to_builtins(value)}
        except TypeError:
            problem = f"found {value!r:.60}; give text, numbers, lists or tables."
            raise ConfigError("", name, problem) from None
        try:
            table = msgspec.convert(plain, unchecked)
        except msgspec.ValidationError:
            first, *_ = problems(unchecked, plain)
            raise ConfigError("", *first) from None
        for kind in _other_kinds(value, getattr(table, name)):
            raise ConfigError("", name, f"found {value!r:.60}; give {kind.__name__}(...).")
    for key, problem in more:
        raise ConfigError("", key, problem)


def _other_kinds(value: object, converted: object) -> Iterator[type]:
    """The kinds of objects for which a value has the text or the mapping that files have."""
    if isinstance(converted, list):
        for pair in zip(cast("list[object]", value), converted, strict=True):
            yield from _other_kinds(*pair)
    elif isinstance(converted, dict):
        for key, inner in converted.items():
            yield from _other_kinds(cast("Mapping[str, object]", value)[key], inner)
    elif not isinstance(value, type(converted)) and isinstance(converted, msgspec.Struct | date):
        yield type(converted)


@cache
def _without_checks(struct: Struct) -> Struct:
    """The fields of a Struct without its `__post_init__`, which would check them again."""
    fields = [(field.name, field.type, None) for field in msgspec.structs.fields(struct)]
    return msgspec.defstruct(struct.__name__, fields)


class _Search(NamedTuple):
    """Looks for the problems of one file.

    `tables`: heading of each table of the file -> its Struct, to tell where an unknown key belongs.
    """

    tables: Mapping[str, Struct]
    strict: bool

    def in_value(self, hint: Any, value: object, key: str) -> Iterator[Problem]:
        """The problems of a value that should have the type `hint`, or of the values in it."""
        try:
            msgspec.convert(value, hint, strict=self.strict)
        except msgspec.ValidationError as error:
            inner = list(self._inside(hint, value, key))
            option = error.__cause__
            if not inner and isinstance(option, ConfigError):
                inner = [Problem(f"{key}.{option.key}".strip("."), option.problem)]
            elif not inner and isinstance(option, (TypeError, ValueError)):
                # Raised by settings of another package, which say what is wrong with them.
                inner = [Problem(key, f"{str(option).rstrip('.')}.")]
            yield from inner or [Problem(key, _wrong_value(hint, value, key, error))]

    def _inside(self, hint: Any, value: object, key: str) -> Iterator[Problem]:
        """The problems of the keys of a table and the items of a list."""
        if isinstance(value, Mapping):
            if structs := [kind for kind in _members(hint) if _is_struct(kind)]:
                yield from self._in_table(structs, value, key)
            inner = [(f"{key}.{name}", nested) for name, nested in value.items()]
        elif isinstance(value, list):
            inner = [(f"{key}[{index}]", nested) for index, nested in enumerate(value)]
        else:
            return
        for kind in _values(hint, list if isinstance(value, list) else dict):
            for path, nested in inner:
                yield from self.in_value(kind, nested, path)

    def _in_table(
        self, structs: Sequence[Struct], table: Mapping[str, Any], key: str
    ) -> Iterator[Problem]:
        tags = [struct.__struct_config__.tag for struct in structs]
        tag_field = structs[0].__struct_config__.tag_field
        tag = table.get(tag_field) if tag_field else tags[0]
        tag_key = f"{key}.{tag_field}".lstrip(".")
        if tag_field is not None and tag_field not in table:
            yield Problem(tag_key, _missing(tag_key))
            return
        if tag not in tags:
            yield Problem(tag_key, _not_allowed(tag, tags))
            return
        struct = structs[tags.index(tag)]
        fields = {field.name: field for field in msgspec.structs.fields(struct)}
        for name in table:
            if name not in fields and name != tag_field:
                yield Problem(f"{key}.{name}".lstrip("."), self._unknown(struct, key, name))
        for name, field in fields.items():
            path = f"{key}.{name}".lstrip(".")
            if name not in table:
                if field.required:
                    yield Problem(path, _missing(path))
            elif (meant := _plain_list(fields, name, table)) is not None:
                yield Problem(path, f"found {_json(table[name])}; did you mean {meant!r}?")
            else:
                yield from self.in_value(field.type, table[name], path)

    def _unknown(self, struct: Struct, key: str, name: str) -> str:
        allowed, own = _keys(struct), key.partition("[")[0].rpartition(".")[2]
        elsewhere = [
            f"{heading} {name}" if heading else f"{name!r} above the first [table]"
            for heading, other in self.tables.items()
            if name in _keys(other) and name != own
        ]
        # The exact key of another table is likelier than a key of this one that is only similar.
        similar = nearest(name, allowed, 0.8 if elsewhere else 0.6)
        meant = " or ".join([repr(candidate) for candidate in similar] or elsewhere)
        hint = f" Did you mean {meant}?" if meant else ""
        return f"unknown key.{hint} Allowed here: {', '.join(allowed)}."


def _plain_list(fields: Mapping[str, FieldInfo], name: str, table: Mapping[str, Any]) -> str | None:
    """The key of nearly this name that takes the list given where tables are expected; or None."""
    entries, wants_tables = table[name], any(map(_is_struct, _values(fields[name].type, list)))
    if not (wants_tables and isinstance(entries, list) and entries):
        return None
    for other in nearest(name, fields.keys() - table.keys()):
        with suppress(msgspec.ValidationError):
            msgspec.convert(entries, fields[other].type)
            return other
    return None


def _missing(key: str) -> str:
    usual = re.sub(r"\[\d+\]", "", key)
    example = f"; for example {_EXAMPLES[usual]}" if usual in _EXAMPLES else ""
    return f"this key is missing{example}."


def _wrong_value(hint: Any, value: object, key: str, error: msgspec.ValidationError) -> str:
    """What is wrong with a value without keys or items of its own that are wrong."""
    kinds = [inspect.type_info(kind) for kind in _members(hint)]
    literals = [kind for kind in _members(hint) if typing.get_origin(kind) is Literal]
    choices = [choice for literal in literals for choice in typing.get_args(literal)]
    if choices and not isinstance(value, (list, Mapping)):
        return _not_allowed(value, choices)
    names = {type(kind) for kind in kinds}
    has_tables = isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value)
    # The kinds to give, or the limits of the one that the value has.
    known = [kind for kind in kinds if type(kind) in _KINDS]
    fitting = [kind for kind in known if isinstance(value, _KINDS[type(kind)][1])]
    expected = [_KINDS[type(kind)][0] + _limit(kind) * bool(fitting) for kind in fitting or known]
    if key.startswith("metrics") and isinstance(value, Mapping):
        remedy = "a metric with its own table goes under [[metric]]"
    elif inspect.ListType in names and isinstance(value, Mapping):
        remedy = f"write [[{key}]], in double brackets"
    elif inspect.StructType in names and has_tables:
        remedy = f"write [{key}] once, in single brackets"
    elif expected:
        may_be_share = isinstance(value, str) or any(map(_is_share, fitting))
        percentage = percentage_hint(value, partial(_is_valid, hint)) if may_be_share else ""
        remedy = f"give {' or '.join(expected)}{percentage}"
    else:
        return f"found {_json(value)}: {error}."
    return f"found {_json(value)}; {remedy}."


def _is_valid(hint: Any, value: object) -> bool:
    with suppress(msgspec.ValidationError):
        msgspec.convert(value, hint)
        return True
    return False


def percentage_hint(value: object, is_allowed: Callable[[float], bool]) -> str:
    """How a percentage is written as a number; empty for anything else.

    Args:
        value: text, or a number where a share is expected; beyond 1 it may be meant as a
            percentage.
        is_allowed: whether a number may be given instead, so that none is named that is refused.

    Example:
        >>> percentage_hint("-5%", lambda share: share < 0), percentage_hint("five", bool)
        (': -5 % is -0.05', '')
        >>> [percentage_hint(value, lambda share: share > 0.5) for value in (95, 0.95, 5)]
        [': 95 % is 0.95', '', '']
    """
    if is_number(value):
        share: Any = value
        number = f"{share:g}" if abs(share) > 1 else ""
    else:
        number = value[:-1].strip() if isinstance(value, str) and value.endswith("%") else ""
    try:
        meant = float(number) / 100
    except ValueError:
        return ""
    return f": {number} % is {meant:g}" if is_allowed(meant) else ""


_KINDS: Final[Mapping[type[inspect.Type], tuple[str, tuple[type, ...]]]] = {
    inspect.StrType: ("text in quotes", (str,)),
    inspect.IntType: ("a whole number", (int,)),
    inspect.FloatType: ("a number", (int, float)),
    inspect.BoolType: ("true or false", ()),
    inspect.ListType: ("a list", (list,)),
    inspect.StructType: ("a table", ()),
    inspect.DictType: ("a table", ()),
    inspect.DateType: ("a date, like 2026-03-01", ()),
}
"""Kind -> its name in messages, and Python's types of values that only exceed its limits."""

_LIMITS: Final = {
    "ge": "of at least",
    "gt": "above",
    "le": "of at most",
    "lt": "below",
    "min_length": "of at least",
}


def _limit(kind: inspect.Type) -> str:
    limits = ((words, getattr(kind, name, None)) for name, words in _LIMITS.items())
    parts = [f"{words} {limit:,.10g}" for words, limit in limits if limit is not None]
    limit_text = " and ".join(parts).replace(" and of ", " and ")
    return f" {limit_text}" if parts else ""


def _is_share(kind: inspect.Type) -> bool:
    """True if the largest number of a kind is 1, as of a share."""
    limits = (getattr(kind, name, None) for name in ("le", "lt"))
    return any(limit == 1 for limit in limits)


def _not_allowed(value: object, choices: Sequence[object]) -> str:
    allowed = ", ".join(map(repr, choices))
    # A number cannot be a misspelt choice.
    named = [choice for choice in choices if isinstance(choice, str)]
    return f"found {_json(value)}; allowed are {allowed}.{suggestion(str(value), named)}"


def _tables(
    struct: Struct, table: Any, name: str = "", heading: str = ""
) -> Iterator[tuple[str, Struct]]:
    """Heading and Struct of each table; `type` selects among several kinds."""
    yield heading, struct
    for field in msgspec.structs.fields(struct):
        inner = table.get(field.name) if isinstance(table, Mapping) else None
        tag = inner.get("type") if isinstance(inner, Mapping) else None
        path = f"{name}.{field.name}".lstrip(".")
        by_name = any(_values(field.type, dict))
        headed = f"[[{path}]]" if any(_values(field.type, list)) else f"[{path}]"
        for struct_type in _structs(field.type):
            if by_name:
                for key, nested in (inner if isinstance(inner, Mapping) else {}).items():
                    yield from _tables(struct_type, nested, f"{path}.{key}", f"[{path}.{key}]")
            elif struct_type.__struct_config__.tag in (None, tag):
                yield from _tables(struct_type, inner, path, headed)


def _structs(hint: Any) -> Iterator[Struct]:
    if _is_struct(hint):
        yield hint
    for argument in typing.get_args(hint):
        yield from _structs(argument)


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _members(hint: Any) -> list[Any]:
    """The types of a union without None, or the one type."""
    if typing.get_origin(hint) in {typing.Union, types.UnionType}:
        return [kind for get_arg in typing.get_args(hint) for kind in _members(get_arg)]
    return [] if hint is types.NoneType else [hint]


def _values(hint: Any, container: type) -> Iterator[Any]:
    """The type of the values of a list or dict."""
    for kind in _members(hint):
        bare = typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind
        if typing.get_origin(bare) is container:
            yield typing.get_args(bare)[-1]


def _keys(struct: Struct) -> list[str]:
    tag = struct.__struct_config__.tag_field
    return ([tag] if tag else []) + [field.name for field in msgspec.structs.fields(struct)]


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
