"""The page, /metrics and the API as an ASGI application."""

from streameval.exporters.asgi import app

__all__ = ["app"]
