"""The engine: from record bytes to counted events, without I/O; the clock is an argument."""
