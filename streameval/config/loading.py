"""Loads a Config from a TOML file; errors name the key and the remedy."""

from __future__ import annotations

import re
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from streameval.checkpoints.settings import is_url
from streameval.config.checks import check_config
from streameval.config.config import Config
from streameval.errors import ConfigError, OptionError, nearest, suggestion
from streameval.sources.options import SourceOptions

T = TypeVar("T", bound=msgspec.Struct | None)

_INTEGERS = range(-(2**63), 2**63)
_LITERAL = re.compile(
    r"(state|dead_letters|web|popularity|similarity)\.|source\.(group|topics|paths)|catalog$"
)
"""Keys in which ${NAME} is not expanded."""
_PLACE = re.compile(r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of .*)\)")


def load(
    path: str | Path,
    change: Callable[[Config], Config] = lambda config: config,
    source: SourceOptions | None = None,
) -> Config:
    """The configuration in a TOML file.

    Paths in it (`catalog`, `source.paths`, `popularity.path`, ...) are relative to the file.

    Args:
        path: of the file.
        change: applied before the checks, for options of the command line.
        source: used if the file has no [source]; None requires one.

    Raises:
        ConfigError: names the file, the key, the value and the allowed values.
    """
    table = _table(Path(path))
    if source is not None:
        table.setdefault("source", msgspec.to_builtins(source))
    try:
        config = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        raise config_error(str(path), error, table) from None
    return check_config(str(path), change(_with_paths_below(Path(path), config)))


def _table(path: Path) -> dict[str, Any]:
    text = text_of(path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(path), text, str(error)) from None
    for key, problem in _invalid_values(table):
        raise ConfigError(str(path), key, problem)
    return table


def _invalid_values(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Values that Python's parser accepts, but TOML, the operating system or a key does not."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _invalid_values(each, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _invalid_values(each, f"{key}[{index}]")
    elif isinstance(value, int) and value not in _INTEGERS:
        yield key, "the integer does not fit 64 bits; give a smaller one."
    elif isinstance(value, str) and "\0" in value:
        yield key, "the text contains a NUL character; remove it."
    elif isinstance(value, str) and "${" in value and _LITERAL.match(key):
        where = "[source] member, [source.kafka] and [registry]"
        yield key, f"found {value!r}; only {where} expand ${{...}}; write the value."


def text_of(path: Path) -> str:
    """The text of a configuration file.

    Raises:
        ConfigError: the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        problem = f"{(error.strerror or str(error)).lower()}; check the path and its permissions."
        raise ConfigError(str(path), "", problem) from error
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8; save the file as UTF-8 text."
        raise ConfigError(str(path), "", problem) from error


def _syntax_error(path: str, text: str, message: str) -> ConfigError:
    found = _PLACE.fullmatch(message)
    what = found["what"] if found else message
    line, column = (found["line"], found["column"]) if found else (None, None)
    if line is None:
        line, column = str(text.count("\n") + 1), str(len(text) - text.rfind("\n"))
    problem = _syntax_problem(what, text.split("\n")[int(line) - 1])
    return ConfigError(path, f"line {line}, column {column}", problem)


def _syntax_problem(what: str, line: str) -> str:
    if what.startswith(("Cannot", "Duplicate")):
        # The value is left out: it may be a password.
        key = line.partition("=")[0].strip()
        if key == "[[metrics]]":
            return f"`metrics` is a list of texts; {_METRIC_TABLE}."
        return f"{key} was defined above; define each key and table once."
    hint = "; put text in quotes" if what == "Invalid value" else ""
    return f"invalid TOML: {what[:1].lower()}{what[1:]}{hint}."


def _with_paths_below(path: Path, config: Config) -> Config:
    catalog = config.catalog
    if isinstance(catalog, str):
        catalog = str(path.parent / catalog)
    source, there = config.source.below(path.parent)
    attribution = config.attribution and config.attribution.renamed(there)
    tables = {
        name: _files_below(path, getattr(config, name))
        for name in ("popularity", "similarity", "state", "dead_letters", "registry", "web")
    }
    return msgspec.structs.replace(
        config, catalog=catalog, source=source, attribution=attribution, **tables
    )


def _files_below(path: Path, options: T) -> T:
    if options is None:
        return options
    named = {
        name: getattr(options, name, None)
        for name in ("path", "vectors", "pairs", "config_file", "ca_file")
    }
    there = {
        name: file if is_url(file) else str(path.parent / file)
        for name, file in named.items()
        if file is not None
    }
    return msgspec.structs.replace(options, **there)


_METRIC_TABLE = "a metric with its own table goes under [[metric]]"
_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<key>.*)`)?")
_FIELD = re.compile(r"Object .* field `(?P<name>.*)`")
_EXPECTED = re.compile(
    r"Expected `(?P<kinds>[^`]*)`(?: of length >= (?P<length>\d+))?"
    r"(?: (?P<bound>[<>]=?) (?P<limit>[\d.]+))?(?:, got `.*`)?"
)
_BOUNDS = {">=": "of at least", ">": "above", "<=": "of at most", "<": "below"}
_KINDS = {
    "str": "text in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_EXAMPLES = {
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


def config_error(
    path: str,
    error: msgspec.ValidationError,
    table: Mapping[str, Any],
    struct: type[msgspec.Struct] = Config,
) -> ConfigError:
    """Translate a validation error of msgspec for a table into a ConfigError."""
    tables = dict(_tables(struct, table))
    found = _MESSAGE.fullmatch(str(error))
    what, key = (found["what"], found["key"] or "") if found else (str(error), "")
    if isinstance(error.__cause__, OptionError):
        within = error.__cause__
        return ConfigError(path, f"{key}.{within.key}".strip("."), within.problem)
    if field := _FIELD.fullmatch(what):
        return _key_error(path, f"{key}.{field['name']}".lstrip("."), tables, what)
    choices = _choices(key.partition("[...]")[0], tables) if what.startswith("Invalid") else []
    key, value = _located(key, table, choices)
    if expected := _EXPECTED.fullmatch(what):
        problem = f"found {_json(value)}; {_remedy(key, value, expected)}."
    elif choices:
        problem = _choice_problem(value, choices)
    elif "date" in what:
        problem = f"found {_json(value)}; give a date, like 2026-03-01."
    else:
        problem = what
    return ConfigError(path, key, problem)


def _key_error(
    path: str, key: str, tables: Mapping[str, type[msgspec.Struct]], what: str
) -> ConfigError:
    if "missing" in what:
        usual = re.sub(r"\[\d+\]", "", key)
        example = f"; for example {_EXAMPLES[usual]}" if usual in _EXAMPLES else ""
        return ConfigError(path, key, f"this key is missing{example}.")
    section, name = _split(key)
    known = _keys(tables[section])
    elsewhere = [
        f"{_bracketed(other)} {name}" if other else f"{name!r} above the first [table]"
        for other, it in tables.items()
        if name in _keys(it) and name != section.rpartition(".")[2]
    ]
    meant = " or ".join([repr(each) for each in nearest(name, known)] or elsewhere)
    hint = f" Did you mean {meant}?" if meant else ""
    return ConfigError(path, key, f"unknown key.{hint} Allowed here: {', '.join(known)}.")


def _remedy(key: str, value: object, expected: re.Match[str]) -> str:
    """What to write in place of a value of the wrong type."""
    kinds = expected["kinds"].split(" | ")
    if key.startswith("metrics") and isinstance(value, dict):
        return _METRIC_TABLE
    if "array" in kinds and isinstance(value, dict):
        return f"write [[{key}]], in double brackets"
    if "object" in kinds and isinstance(value, list) and any(isinstance(it, dict) for it in value):
        return f"write [{key}] once, in single brackets"
    return f"give {_expected(expected)}"


def _expected(found: re.Match[str]) -> str:
    kinds = [_KINDS.get(kind, kind) for kind in found["kinds"].split(" | ") if kind != "null"]
    text = " or ".join(kinds)
    if found["length"]:
        return f"{text} of at least {found['length']}"
    if found["limit"]:
        return f"{text} {_BOUNDS[found['bound']]} {float(found['limit']):g}"
    return text


def _choice_problem(value: object, choices: list[object]) -> str:
    allowed = ", ".join(map(repr, choices))
    # A number cannot be a misspelt choice.
    named = [choice for choice in choices if isinstance(choice, str)]
    return f"found {_json(value)}; allowed are {allowed}.{suggestion(str(value), named)}"


def _choices(key: str, tables: Mapping[str, type[msgspec.Struct]]) -> list[object]:
    section, name = _split(key)
    if key == "source.type":
        return [str(each.__struct_config__.tag) for each in typing.get_args(SourceOptions)]
    hint = typing.get_type_hints(tables[section]).get(name)
    return [choice for literal in _literals(hint) for choice in typing.get_args(literal)]


def _literals(hint: object) -> Iterator[object]:
    if typing.get_origin(hint) is Literal:
        yield hint
    else:
        for argument in typing.get_args(hint):
            yield from _literals(argument)


def _tables(
    struct: type[msgspec.Struct], table: Any, name: str = ""
) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Dotted name and Struct of each table; `type` selects among several kinds."""
    yield name, struct
    for key, hint in typing.get_type_hints(struct).items():
        inner = table.get(key) if isinstance(table, Mapping) else None
        chosen = inner.get("type") if isinstance(inner, Mapping) else None
        for each in _structs(hint):
            if each.__struct_config__.tag in (None, chosen):
                yield from _tables(each, inner, f"{name}.{key}".lstrip("."))


def _structs(hint: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for argument in typing.get_args(hint):
        yield from _structs(argument)


def _split(key: str) -> tuple[str, str]:
    """The table of a key, without an index, and the key's name in it."""
    section, _, name = key.rpartition(".")
    return section.partition("[")[0], name


def _bracketed(section: str) -> str:
    several = section in {"metric", "attribution.interactions"}
    return f"[[{section}]]" if several else f"[{section}]" if section else ""


def _keys(struct: type[msgspec.Struct]) -> list[str]:
    tag = struct.__struct_config__.tag_field
    return ([tag] if tag else []) + [field.name for field in msgspec.structs.fields(struct)]


def _located(key: str, table: Mapping[str, Any], choices: list[object]) -> tuple[str, Any]:
    """The key and its value; finds the entry of a mapping that msgspec only calls [...].

    `choices`: values that are right; empty if any text is.
    """
    section, unnamed, rest = key.partition("[...]")
    found: Any = table
    for step in re.findall(r"[^.\[\]]+", section):
        found = found[int(step)] if isinstance(found, list) else found[step]
    if not unnamed:
        return key, found
    entries = dict(found)
    if rest:
        place = int(rest.strip("[]"))
        entries = {
            name: value[place]
            for name, value in found.items()
            if isinstance(value, list) and place < len(value)
        }
    others = [
        name
        for name, value in entries.items()
        if not isinstance(value, str) or (choices and value not in choices)
    ]
    name = (others or list(entries))[0]
    return f"{section}.{name}{rest}", entries[name]


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
