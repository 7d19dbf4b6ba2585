"""Injects faults into daemons on a real broker; `python -m tests.chaos`."""
