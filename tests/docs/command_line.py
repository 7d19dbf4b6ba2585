"""docs/reference/command-line.md: every command and option, as the program itself declares them."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import typer

from streameval.cli.app import app
from streameval.cli.ending import DONE, FAILED

_HEAD = f"""# The command line

Generated from the program by `python -m tests.docs --write`; a test fails where it lags. The same
text is `streameval COMMAND --help`.

| exit status | means |
|---|---|
| {DONE} | done |
| {FAILED} | something failed while it ran; starting again may help |
| 2 | it was called wrongly, or a person must decide something first |

What went wrong is one line on standard error. Results are on standard output.
"""
_WORDS = {str: "TEXT", int: "NUMBER", float: "NUMBER"}


def page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_commands(typer.main.get_command(app), "streameval")])


def _commands(command: Any, name: str) -> Iterator[str]:
    yield from (f"## `{name}`", "", *_usage(command, name), "", command.help, "")
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    if arguments:
        yield from ("| argument | |", "|---|---|", *map(_argument, arguments), "")
    if options:
        yield from ("| option | value | default | |", "|---|---|---|---|")
        yield from (*map(_option, options), "")
    for each in getattr(command, "commands", {}):
        _, found, _ = command.resolve_command(typer.Context(command), [each])
        yield from _commands(found, f"{name} {each}")


def _usage(command: Any, name: str) -> Iterator[str]:
    if hasattr(command, "commands"):
        rest = "COMMAND ..."
    else:
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        needed = [
            each.opts[0] + " " + _value(each)
            for each in command.params
            if each.param_type_name == "option" and each.required
        ]
        places = [_place(each) for each in arguments]
        rest = " ".join([*needed, "[OPTIONS]", *places])
    yield f"`{name} {rest}`"


def _place(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _argument(argument: Any) -> str:
    return f"| `{_place(argument)}` | {_cell(argument.help)} |"


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    return f"| {names} | {_allowed(option)} | {_default(option)} | {_cell(option.help)} |"


def _allowed(option: Any) -> str:
    if option.is_flag:
        return ""
    annotation = option.type_descriptor.annotation
    if typing.get_origin(annotation) is typing.Literal:
        return ", ".join(f"`{choice}`" for choice in typing.get_args(annotation))
    limits = {"from": option.min, "to": option.max}
    said = [f"{word} {limit:,}" for word, limit in limits.items() if limit is not None]
    return " ".join([f"`{_value(option)}`", *said])


def _value(option: Any) -> str:
    if option.metavar:
        return str(option.metavar)
    annotation = option.type_descriptor.annotation
    only = typing.get_args(annotation)
    return _WORDS.get(only[0] if only else annotation, "FILE")


def _default(option: Any) -> str:
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return option.show_default.replace("|", "\\|")
    nothing = option.is_flag or option.default is None or option.default == []
    return "" if nothing else f"`{option.default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
