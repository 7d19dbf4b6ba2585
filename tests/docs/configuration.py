"""docs/reference/configuration.md: every table and key, as the structs declare them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import NODEFAULT
from msgspec.inspect import (
    BoolType,
    DateType,
    DictType,
    Field,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    type_info,
)

from streameval.config import Config

_HEAD = """# Configuration: every table and key

Generated from the code by `python -m tests.docs --write`. With examples:
[Write a configuration](../how-to/configuration.md).

Keys without a default may be left out. Paths are relative to the file. A duration is a whole
number and `s`, `m`, `h` or `d`.
"""
_DURATION = re.compile(r"[0-9]+[smhd]")
_DURATIONS = {"dedup", "windows.spans", "metric.windows", "attribution.idle_timeout"}
"""Durations without a default, by which they could be known."""
_ATTRIBUTE = re.compile(r"(?P<name>\w+): (?P<text>.*(?:\n {4,}.*)*)")


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_sections()])


def documented(struct: type) -> dict[str, str]:
    """What the docstring says of each attribute, on one line."""
    found = {}
    for each in reversed(struct.__mro__):
        text = inspect.cleandoc(each.__doc__ or "").partition("Attributes:\n")[2]
        text = text.partition("\n\n")[0]
        for attribute in _ATTRIBUTE.finditer(inspect.cleandoc(text)):
            found[attribute["name"]] = " ".join(attribute["text"].split())
    return found


def _sections() -> Iterator[str]:
    waiting: list[tuple[str, StructType]] = [("Top level", _struct(type_info(Config)))]
    while waiting:
        heading, struct = waiting.pop(0)
        yield from (f"## {heading}", "", _summary(struct), "", *_table(heading, struct), "")
        waiting[:0] = list(_below(heading, struct))


def _summary(struct: StructType) -> str:
    return inspect.cleandoc(struct.cls.__doc__ or "").partition("\n")[0]


def _table(heading: str, struct: StructType) -> Iterator[str]:
    said = documented(struct.cls)
    if struct.tag_field is not None:
        yield f'- `{struct.tag_field}` (`"{struct.tag}"`, required)'
    for field in sorted(struct.fields, key=lambda field: not field.required):
        kind, meaning = _kind(heading, field), _meaning(said[field.name])
        default = _default(field)
        usual = default if default in {"", "; required"} else f"; default {default}"
        yield f"- `{field.encode_name}` ({kind}{usual}): {meaning}"


def _meaning(text: str) -> str:
    ended = text if text.endswith("...") else text.removesuffix(".")
    return re.sub(r"\bNone\b", "none", ended)


def _below(heading: str, struct: StructType) -> Iterator[tuple[str, StructType]]:
    """The tables that stand in this one."""
    for field in sorted(struct.fields, key=lambda field: not field.required):
        name = _path(heading, field)
        many = isinstance(field.type, ListType)
        structs = list(_structs(field.type))
        for each in structs:
            kind = f' with `type = "{each.tag}"`' if each.tag is not None else ""
            yield (f"`[[{name}]]`" if many else f"`[{name}]`{kind}"), each


def _path(heading: str, field: Field) -> str:
    found = re.match(r"`\[+(?P<table>[\w.]+)\]+`", heading)
    return f"{found['table']}.{field.encode_name}" if found else field.encode_name


def _structs(kind: Type) -> Iterator[StructType]:
    if isinstance(kind, StructType):
        yield kind
    elif isinstance(kind, UnionType):
        for each in kind.types:
            yield from _structs(each)
    elif isinstance(kind, ListType):
        yield from _structs(kind.item_type)


def _kind(heading: str, field: Field) -> str:
    structs = list(_structs(field.type))
    if not structs:
        duration = isinstance(field.default, str) and _DURATION.fullmatch(field.default)
        words = "duration" if duration else _words(field.type)
        return words.replace("text", "duration") if _path(heading, field) in _DURATIONS else words
    name = _path(heading, field)
    if isinstance(field.type, ListType):
        return f"[tables](#{name.replace('.', '')})"
    if len(structs) > 1:
        kinds = ", ".join(
            f'[`"{each.tag}"`](#{name.replace(".", "")}-with-type--{each.tag})' for each in structs
        )
        return f"table: {kinds}"
    return f"[table](#{name.replace('.', '')})"


def _words(kind: Type) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(_words(each) for each in kind.types if not isinstance(each, NoneType))
    if isinstance(kind, LiteralType) and isinstance(kind.values[0], int):
        return ", ".join(f"`{value}`" for value in sorted(kind.values, key=str))
    if isinstance(kind, LiteralType):
        return ", ".join(f'`"{value}"`' for value in sorted(kind.values, key=_fail_first))
    if isinstance(kind, ListType):
        return f"list of {_words(kind.item_type)}"
    if isinstance(kind, DictType):
        return f"table of {_words(kind.value_type)}"
    return _simple(kind)


def _simple(kind: Type) -> str:
    names: Mapping[type[Type], str] = {
        BoolType: "`true` or `false`",
        IntType: "whole number",
        FloatType: "number",
        StrType: "text",
        DateType: "date",
    }
    bounds = {"ge": "from {:,}", "gt": "above {:,}", "le": "to {:,}", "lt": "below {:,}"}
    asked = [(text, getattr(kind, name, None)) for name, text in bounds.items()]
    limits = [text.format(limit) for text, limit in asked if limit is not None]
    return " ".join([names.get(type(kind), "anything"), *limits])


def _fail_first(value: object) -> tuple[bool, str]:
    return value != "fail", str(value)


def _default(field: Field) -> str:
    if field.required:
        return "; required"
    made: Any = field.default_factory() if field.default is NODEFAULT else field.default
    if isinstance(made, msgspec.Struct):
        return "as below"
    return "" if made is None else f"`{msgspec.json.encode(made).decode()}`"


def _struct(found: Type) -> StructType:
    assert isinstance(found, StructType)
    return found
