"""What a request accepts, by the quality values of its headers (RFC 9110, section 12)."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping

_OPENMETRICS = "application/openmetrics-text"


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an `Accept-Encoding` asks for gzip.

    Example:
        >>> [accepts_gzip(text) for text in ("br, gzip;q=0.5", "*", "gzip;q=0, *", "deflate", "")]
        [True, True, False, False, False]
    """
    qualities = {name: quality for name, _, quality in _choices(accept_encoding)}
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


def pack(content: bytes) -> bytes:
    """The content in gzip, at its quickest level."""
    return gzip.compress(content, 1, mtime=0)


def prefers_openmetrics(accept: str) -> bool:
    """Whether an `Accept` takes OpenMetrics 1 and not rather the text format 0.0.4.

    Example:
        >>> prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.3"
        >>> prefers_openmetrics(prometheus), prefers_openmetrics("*/*"), prefers_openmetrics("")
        (True, False, False)
        >>> prefers_openmetrics("application/openmetrics-text;version=2.0.0")
        False
    """
    openmetrics = text = 0.0
    for name, parameters, quality in _choices(accept):
        version = parameters.get("version", "")
        if name == _OPENMETRICS and version in ("", "1.0.0"):
            openmetrics = max(openmetrics, quality)
        elif name == "text/plain" and version in ("", "0.0.4"):
            text = max(text, quality)
    return openmetrics > 0 and openmetrics >= text


def _choices(header: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """Each choice of a list: its name, its parameters and its quality; 0 if that is no number."""
    for choice in header.lower().split(","):
        name, *rest = (part.strip() for part in choice.split(";"))
        pairs = (part.partition("=") for part in rest)
        parameters = {key.strip(): value.strip().strip('"') for key, _, value in pairs}
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        yield name, parameters, quality
