"""Loads a Config from a TOML file; errors name the key and the remedy."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from streameval.checkpoints.settings import is_url
from streameval.config.checks import check_config, metric_problems
from streameval.config.config import Config, configuration
from streameval.engine.analysis import installed, own_error
from streameval.events.errors import ConfigError, StreamevalError
from streameval.events.problems import Problem, problems
from streameval.sources.settings import SourceOptions

_TABLES_WITH_FILES: Final = ("popularity", "similarity", "state", "registry", "web")
_FILES: Final = ("path", "vectors", "pairs", "config_file", "ca_file")
_INTEGERS = range(-(2**63), 2**63)
_OTHER_SYNTAX = re.compile(r"(\s|#.*\n)*(---|\{|[\w-]+:\s)")
"""The beginning of a file in YAML or JSON."""

_LITERAL = re.compile(
    r"(state|web|popularity|similarity|attributes)\.|source\.(group|topics|paths)|catalog$"
)
"""Keys in which ${NAME} is not expanded."""


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
    with _own_errors(table):
        try:
            config = msgspec.convert(table, configuration())
        except msgspec.ValidationError as error:
            raise config_error(str(path), error, table, configuration()) from None
    config.hide_previews()
    return check_config(str(path), change(_with_paths_below(Path(path), config)))


@contextmanager
def _own_errors(table: Mapping[str, Any]) -> Iterator[None]:
    """Name the analysis of another package whose settings raise an exception.

    Raises:
        OwnAnalysisError: `__post_init__` of settings raised one that does not say what is wrong
            with their values.
    """
    try:
        yield
    except Exception as unexpected:
        if isinstance(unexpected, (StreamevalError, MemoryError)):
            raise
        for analysis in installed():
            if analysis.package and analysis.table in table:
                try:
                    msgspec.convert(table[analysis.table], analysis.settings)
                except msgspec.ValidationError:
                    continue
                except MemoryError:
                    raise
                except Exception as error:  # settings of another package may raise anything
                    raise own_error(
                        error, analysis.name, analysis.table, analysis.package, "settings"
                    ) from error
        raise


def _table(path: Path) -> dict[str, Any]:
    text = text_of(path)
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        remedy = "put text in quotes, and define each key and table once"
        if _OTHER_SYNTAX.match(text):
            example = 'metrics = ["ctr"], and a table as [source] with lines like type = "kafka"'
            remedy = f"it looks like YAML or JSON; a key is written in TOML as {example}"
        elif any(line.strip() == "[[metrics]]" for line in text.splitlines()):
            remedy = (
                "`metrics` is a list of texts; a metric with its own table goes under [[metric]]"
            )
        raise ConfigError(str(path), "", f"invalid TOML: {error}; {remedy}.") from None
    for key, problem in _invalid_values(table):
        raise ConfigError(str(path), key, problem)
    return table


def _invalid_values(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Values that Python's parser accepts, but TOML, the operating system or a key does not."""
    if isinstance(value, dict):
        for name, nested in value.items():
            yield from _invalid_values(nested, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for index, nested in enumerate(value):
            yield from _invalid_values(nested, f"{key}[{index}]")
    elif isinstance(value, int) and value not in _INTEGERS:
        yield key, "the integer does not fit 64 bits; give a smaller one."
    elif isinstance(value, str) and "\0" in value:
        yield key, "the text contains a NUL character; remove it."
    elif isinstance(value, str) and "${" in value and _LITERAL.match(key):
        where = "user_key, [source] member, [source.kafka] and [registry]"
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


def _with_paths_below(path: Path, config: Config) -> Config:
    catalog = config.catalog
    if isinstance(catalog, str):
        catalog = str(path.parent / catalog)
    source, path_by_name = config.source.below(path.parent)
    paths = {name: [path] for name, path in path_by_name.items()}
    attribution = config.attribution and config.attribution.with_sources(paths)

    def below(table: msgspec.Struct | None) -> msgspec.Struct | None:
        if table is None:
            return None
        named = {name: getattr(table, name, None) for name in _FILES}
        files = {
            name: file if is_url(file) else str(path.parent / file)
            for name, file in named.items()
            if file is not None
        }
        return msgspec.structs.replace(table, **files)

    return msgspec.structs.replace(
        config,
        catalog=catalog,
        source=source,
        attribution=attribution,
        attributes={name: below(options) for name, options in config.attributes.items()},
        **{name: below(getattr(config, name)) for name in _TABLES_WITH_FILES},
    )


def config_error(
    path: str,
    error: msgspec.ValidationError,
    table: Mapping[str, Any],
    struct: type[msgspec.Struct],
    *,
    strict: bool = True,
) -> ConfigError:
    """The ConfigError for a table that msgspec refuses: all its problems at once."""
    first, *others = problems(struct, table, strict=strict) or [Problem("", f"{error}.")]
    if issubclass(struct, Config):
        others += map(Problem._make, _wrong_metrics(table))
    return ConfigError(path, *first, *(ConfigError(path, *other) for other in others))


def _wrong_metrics(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The metrics that no configuration may name, if the tables that name and feed them are whole.

    The other checks between tables need all of them.
    """
    named = {key: table[key] for key in ("metrics", "metric", "event") if key in table}
    try:
        part = msgspec.convert({**named, "source": {"type": "simulator"}}, Config)
    except msgspec.ValidationError:
        return
    if part.metrics or part.metric:
        yield from metric_problems(part)
