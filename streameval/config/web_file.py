"""Loads a web configuration file in YAML: TLS and users."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from streameval.config.loading import config_error, text_of
from streameval.config.options import WebOptions
from streameval.events.errors import ConfigError
from streameval.exporters.web.webconfig import Security, WebConfig


def web_security(options: WebOptions) -> Security:
    """Certificate and users of the web configuration file; without a file, HTTP without users."""
    path = options.config_file
    return Security() if path is None else Security(path, partial(web_config, path))


def web_config(path: str) -> WebConfig:
    """The content of a web configuration file; certificates are not read yet."""
    table = _table(path)
    try:
        # The loader keeps scalars as text, so that a user may be named 123 or "no".
        return msgspec.convert(table, WebConfig, strict=False)
    except msgspec.ValidationError as error:
        raise config_error(path, error, table, WebConfig, strict=False) from None


def _table(path: str) -> dict[str, Any]:
    try:
        loader = _Loader(text_of(Path(path)))
        content = loader.get_single_data() or {}
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(path, error) from None
    except yaml.YAMLError as error:
        first = str(error).splitlines()[0]
        raise ConfigError(path, "", f"invalid YAML: {first}.") from None
    if not isinstance(content, dict):
        problem = f"found {msgspec.json.encode(content).decode()[:60]}; give keys with values."
        raise ConfigError(path, "", problem)
    return _without_blanks(content)


def _syntax_error(path: str, error: yaml.MarkedYAMLError) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return ConfigError(path, where, f"invalid YAML: {error.problem or error.context}.")


def _without_blanks(table: dict[str, Any]) -> dict[str, Any]:
    """Drop keys without a value; a user without a hash stays, and is rejected later."""
    content = {name: option for name, option in table.items() if option != ""}
    tls = content.get("tls_server_config")
    if isinstance(tls, dict):
        content["tls_server_config"] = {key: option for key, option in tls.items() if option != ""}
    return content


class _Loader(yaml.BaseLoader):
    """Reads every scalar as text, and rejects duplicate keys."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002  PyYAML's own
    ) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                problem = f"the key {name!r} appears twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)
