"""From a TOML file to a Config, or to one sentence about what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from streameval.config.attribution import renamed
from streameval.config.checks import checked
from streameval.config.mistakes import explained
from streameval.config.settings import Config
from streameval.errors import ConfigError
from streameval.sources.opening import STDIN
from streameval.sources.options import FilesOptions, SourceOptions

T = TypeVar("T", bound=msgspec.Struct | None)

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
        change: what is said elsewhere in place of it, before it is looked at as a whole.
        source: what is read where the file says nothing of it; None where it must.

    Raises:
        ConfigError: names the file, the key, what was found there and what is allowed.
    """
    table = _table(Path(path))
    if source is not None:
        table.setdefault("source", msgspec.to_builtins(source))
    try:
        config = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        raise explained(str(path), str(error), table) from None
    return checked(str(path), change(_beside(Path(path), config)))


def _table(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        problem = f"{(error.strerror or str(error)).lower()}; check the path and its permissions."
        raise ConfigError(str(path), "", problem) from error
    except UnicodeDecodeError as error:
        problem = f"byte {error.start} is not UTF-8; save the file as UTF-8 text."
        raise ConfigError(str(path), "", problem) from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(path), text, str(error)) from None


def _syntax_error(path: str, text: str, message: str) -> ConfigError:
    found = _PLACE.fullmatch(message)
    what = found["what"] if found else message
    line, column = (found["line"], found["column"]) if found else (None, None)
    if line is None:
        line, column = str(text.count("\n") + 1), str(len(text) - text.rfind("\n"))
    hint = "; text stands in quotes" if what == "Invalid value" else ""
    problem = f"this is not TOML: {what[:1].lower()}{what[1:]}{hint}."
    return ConfigError(path, f"line {line}, column {column}", problem)


def _beside(path: Path, config: Config) -> Config:
    catalog, source = config.catalog, config.source
    if isinstance(catalog, str):
        catalog = str(path.parent / catalog)
    attribution = config.attribution
    if isinstance(source, FilesOptions):
        there = {each: str(path.parent / each) for each in source.paths if each != STDIN}
        places = [there.get(each, each) for each in source.paths]
        source = msgspec.structs.replace(source, paths=places)
        attribution = attribution and renamed(attribution, there)
    named = {
        "popularity": _beside_files(path, config.popularity),
        "similarity": _beside_files(path, config.similarity),
        "state": _beside_files(path, config.state),
        "dead_letters": _beside_files(path, config.dead_letters),
        "web": _beside_files(path, config.web),
        "attribution": attribution,
    }
    return msgspec.structs.replace(config, catalog=catalog, source=source, **named)


def _beside_files(path: Path, options: T) -> T:
    if options is None:
        return options
    named = {
        name: getattr(options, name, None) for name in ("path", "vectors", "pairs", "config_file")
    }
    there = {name: str(path.parent / file) for name, file in named.items() if file is not None}
    return msgspec.structs.replace(options, **there)
