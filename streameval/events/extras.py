"""Imports that come late: of modules that few need, and of the optional extras."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any

from streameval.events.errors import ConfigError, MissingExtraError
from streameval.events.forks import forkable_lock
from streameval.events.out_of_memory import is_out_of_memory


@cache
def _importing() -> Any:
    """A lock, so that no child is forked in the middle of an import, which would wait for ever."""
    return forkable_lock()


class LazyModule:
    """A module that is imported when something of it is first used.

    Example:
        >>> LazyModule("math").sqrt(4)
        2.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        with _importing():
            value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


@contextmanager
def imports_of(what: str, extra: str) -> Iterator[None]:
    """Makes a failed import below it name the optional extra that `what` needs.

    Raises:
        MissingExtraError: an import failed.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        if is_out_of_memory(error):
            raise MemoryError from error
        from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415  slow, and rare

        # What pip also finds for an installation from source.
        needed = list[str]()
        with suppress(PackageNotFoundError):
            parts = (requirement.partition(";") for requirement in requires("streameval") or ())
            markers = (f'extra == "{extra}"', f"extra == '{extra}'")
            needed = [name.strip() for name, _, marker in parts if marker.strip() in markers]
        needed = needed or [f"streameval[{extra}]"]
        problem = " ".join(str(error).split()) or type(error).__name__
        install = " ".join(f"'{requirement}'" for requirement in needed)
        raise MissingExtraError(
            f"{what} needs the extra {extra!r}, which cannot be imported ({problem}); "
            f"pip install {install}.",
            what=what,
            extra=extra,
            error=error,
            requirements=needed,
        ) from error


def import_extra(module: str, what: str, extra: str) -> Any:
    """Import a module that needs an optional extra.

    Raises:
        MissingExtraError: it cannot be imported; `what` needs it.
    """
    with imports_of(what, extra):
        return import_module(module)


def load_named(text: str, key: str, kind: str) -> Any:
    """The callable that "package.module:name" names in a user's module.

    Raises:
        ConfigError: the key names nothing of this kind.
    """
    module, _, name = text.partition(":")
    try:
        loaded = getattr(import_module(module), name)
    except Exception as error:  # the import of a user's module may raise anything
        problem = f"{text!r} cannot be loaded ({type(error).__name__}: {error})"
        remedy = f"give a {kind} as 'package.module:name', with its folder in PYTHONPATH."
        raise ConfigError("[event]", key, f"{problem}; {remedy}") from error
    if not callable(loaded):
        problem = f"{text!r} is {type(loaded).__name__}, and not a {kind}."
        raise ConfigError("[event]", key, problem)
    return loaded
