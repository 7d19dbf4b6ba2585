"""pyarrow, where it is installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from streameval.errors import MissingExtraError


def arrow(part: str = "") -> Any:
    """pyarrow, or one of its parts: "csv", "compute", "parquet".

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(f"pyarrow.{part}" if part else "pyarrow")
    except ImportError as error:
        raise MissingExtraError("reading parquet and CSV files", "parquet") from error
