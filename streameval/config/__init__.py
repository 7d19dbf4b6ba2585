"""The configuration file: what it may say, and reading it with an answer to each slip."""

from streameval.config.config import Config
from streameval.config.options import WebOptions
from streameval.config.reading import load

__all__ = ["Config", "WebOptions", "load"]
