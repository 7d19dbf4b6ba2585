"""Injects faults into daemons on a real broker."""
