"""The configuration file: its tables, their checks, and error messages that name the key."""

from streameval.config.config import Config
from streameval.config.loading import load
from streameval.config.tables import WebOptions

__all__ = ["Config", "WebOptions", "load"]
