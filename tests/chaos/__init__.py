"""Whole daemons against a real broker, hurt in every way that is known; `python -m tests.chaos`."""
