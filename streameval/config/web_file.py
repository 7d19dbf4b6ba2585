"""Loads a web configuration file in YAML: TLS and users."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from streameval.config.loading import config_error, text_of
from streameval.config.tables import WebOptions
from streameval.events.errors import ConfigError
from streameval.exporters.web.webconfig import Security, WebConfig


def web_security(options: WebOptions) -> Security:
    """Certificate and users of the web configuration file; without a file, HTTP without users."""
    path = options.config_file
    return Security() if path is None else Security(path, partial(web_config, path))


def web_config(path: str) -> WebConfig:
    """The content of a web configuration file; certificates are not read yet."""
    try:
        content = _Loader(text_of(Path(path))).get_single_data() or {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = f"invalid YAML: {error.problem or error.context}."
        raise ConfigError(path, where, problem) from None
    except yaml.YAMLError as error:
        raise ConfigError(path, "", f"invalid YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(content, dict):
        problem = f"found {msgspec.json.encode(content).decode()[:60]}; give keys with values."
        raise ConfigError(path, "", problem)
    # A key without a value is as if absent; a user without a hash stays, and is rejected.
    table = _without_blanks(content)
    if isinstance(tls := table.get("tls_server_config"), dict):
        table["tls_server_config"] = _without_blanks(tls)
    try:
        # The loader keeps scalars as text, so that a user may be named 123 or "no".
        return msgspec.convert(table, WebConfig, strict=False)
    except msgspec.ValidationError as error:
        raise config_error(path, error, table, WebConfig, strict=False) from None


def _without_blanks(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value != ""}


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
