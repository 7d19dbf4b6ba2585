"""The page, /metrics and the API as an ASGI application."""

from streameval.events.extras import imports_of

with imports_of("streameval.asgi", "daemon"):
    from streameval.exporters.asgi import app

__all__ = ["app"]
