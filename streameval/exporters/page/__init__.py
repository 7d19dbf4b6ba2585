"""The one renderer: a snapshot as HTML, for the web server's page and for a file to send."""

from streameval.exporters.page.page import document

__all__ = ["document"]
